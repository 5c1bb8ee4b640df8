"""The stories of generated problems: their random draws, wordings and worked steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from operators.datasets.rehearsal import problem_words as words


class Draw:
    """Random choices that are the same on every machine and Python version."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random  # the one method whose sequence Python guarantees

    def pick[T](self, choices: Sequence[T]) -> T:
        return choices[int(self._random() * len(choices))]

    def between(self, low: int, high: int) -> int:
        """Return a number from low to high, both included."""
        return low + int(self._random() * (high - low + 1))

    def person(self) -> Person:
        if self._random() < 0.5:
            return Person(self.pick(words.SHE), "she", "her", "her")
        return Person(self.pick(words.HE), "he", "him", "his")


@dataclass(frozen=True)
class Person:
    name: str
    they: str
    them: str
    their: str


@dataclass
class Problem:
    sentences: list[str] = field(default_factory=list[str])
    steps: list[str] = field(default_factory=list[str])
    final: int = 0

    def step(self, lead: str, expression: str, unit: str, money: bool = False) -> int:
        """Add one worked step and return its value. The expression holds numbers, + - * / and no spaces."""
        result = _evaluate(expression)
        sign = "$" if money else ""
        self.steps.append(f"{lead} {expression} = {sign}<<{expression}={result}>>{result} {unit}".rstrip() + ".")
        self.final = result
        return result


def _evaluate(expression: str) -> int:
    """Return the value of a chain of integers with one operator, left to right. Divisions are exact by construction."""
    for operator in "+*/-":
        first, *rest = expression.split(operator)
        if rest:
            total = int(first)
            for number in map(int, rest):
                total = {"+": total + number, "-": total - number, "*": total * number, "/": total // number}[operator]
            return total
    return int(expression)


def _start(words_first: str) -> str:
    return words_first[0].upper() + words_first[1:]


def _collection(draw: Draw) -> Problem:
    """Tell a story of a number of things that grows and shrinks through two to four events."""
    problem, who, other = Problem(), draw.person(), draw.person()
    one, many = draw.pick(words.THINGS)
    look, when, place, holder = (
        draw.pick(words.ADJECTIVES), draw.pick(words.WHEN), draw.pick(words.PLACES), draw.pick(words.CONTAINERS)
    )  # fmt: skip
    count = draw.between(14, 97)
    if draw.between(0, 2) == 0:
        groups, each = draw.between(3, 12), draw.between(4, 16)
        problem.sentences.append(draw.pick((
            f"{who.name} keeps {groups} {holder}s with {each} {look} {many} inside every {holder}.",
            f"In {draw.pick(words.TOWNS)}, {who.name} packed {look} {many} into {groups} {holder}s, {each} apiece.",
            f"There are {groups} {holder}s at {who.name}'s {place}, and {each} {look} {many} fit in one {holder}.",
        )))  # fmt: skip
        count = problem.step(draw.pick(("That makes", f"{who.name} begins with", "At first there are")),
                             f"{groups}*{each}", f"{look} {many}")  # fmt: skip
    else:
        problem.sentences.append(draw.pick((
            f"{who.name} has {count} {look} {many} in {who.their} {holder}.",
            f"{_start(when)}, {who.name} counted {count} {look} {many} at the {place}.",
            f"The {holder} that {who.name} found near {draw.pick(words.TOWNS)} holds {count} {look} {many}.",
            f"{who.name}'s {draw.pick(words.RELATIVES)} left {who.them} {count} {look} {many}.",
        )))  # fmt: skip
    for event in _different(draw, EVENTS, draw.between(2, 3)):
        count = event(draw, problem, who, other, (one, many), count)
    return _ending(draw, problem, who, other, (one, many), count)


def _different[T](draw: Draw, choices: Sequence[T], count: int) -> list[T]:
    left = list(choices)
    return [left.pop(draw.between(0, len(left) - 1)) for _ in range(count)]


type Event = Callable[[Draw, Problem, Person, Person, tuple[str, str], int], int]


def _gain(draw: Draw, problem: Problem, who: Person, other: Person, thing: tuple[str, str], count: int) -> int:
    more = draw.between(5, 68)
    problem.sentences.append(draw.pick((
        f"{_start(draw.pick(words.WHEN))} {other.name} gives {who.them} {more} more.",
        f"{other.name} in {draw.pick(words.TOWNS)} sends {more} extra {thing[1]}.",
        f"Then {who.they} buys another {more} at the {draw.pick(words.PLACES)} in {draw.pick(words.TOWNS)}.",
        f"{more} further {thing[1]} turn up in the {draw.pick(words.PLACES)} {draw.pick(words.WHEN)}.",
    )))  # fmt: skip
    lead = draw.pick(("Now there are", f"{who.name} then has", f"With {more} more this becomes"))
    return problem.step(lead, f"{count}+{more}", thing[1])


def _loss(draw: Draw, problem: Problem, who: Person, other: Person, thing: tuple[str, str], count: int) -> int:
    fewer = draw.between(1, max(1, min(count - 2, 45)))
    problem.sentences.append(draw.pick((
        f"{who.name} loses {fewer} of them {draw.pick(words.WHEN)}.",
        f"{fewer} are traded to {other.name} at the {draw.pick(words.PLACES)}.",
        f"The {draw.pick(words.PLACES)} takes {fewer} away because they are {draw.pick(words.FLAWS)}.",
        f"{who.they.capitalize()} donates {fewer} to the {draw.pick(words.PLACES)} {draw.pick(words.WHEN)}.",
    )))  # fmt: skip
    lead = draw.pick(("That leaves", f"After losing {fewer} there remain", f"{who.name} still has"))
    return problem.step(lead, f"{count}-{fewer}", thing[1])


def _multiply(draw: Draw, problem: Problem, who: Person, other: Person, thing: tuple[str, str], count: int) -> int:
    factor = draw.between(2, 4)
    times = {2: "twice", 3: "three times", 4: "four times"}[factor]
    problem.sentences.append(draw.pick((
        f"{_start(draw.pick(words.WHEN))} there are {times} as many {thing[1]}.",
        f"{other.name}, {who.their} {draw.pick(words.RELATIVES)}, trades {times} as many for all of them.",
        f"After a month at the {draw.pick(words.PLACES)}, {who.they} owns {times} that number.",
    )))  # fmt: skip
    return problem.step(draw.pick(("It grows to", f"{times.capitalize()} as many is", "That gives")),
                        f"{count}*{factor}", thing[1])  # fmt: skip


def _refill(draw: Draw, problem: Problem, who: Person, other: Person, thing: tuple[str, str], count: int) -> int:
    groups, each, holder = draw.between(2, 9), draw.between(3, 15), draw.pick(words.CONTAINERS)
    problem.sentences.append(draw.pick((
        f"{other.name} arrives with {groups} {holder}s of {each} {thing[1]} each.",
        f"At the {draw.pick(words.PLACES)} {who.they} picks up {groups} packs, {each} in a pack.",
        f"{groups} {draw.pick(words.RELATIVES)}s bring {each} apiece {draw.pick(words.WHEN)}.",
    )))  # fmt: skip
    added = problem.step(
        draw.pick(("The new ones are", f"{other.name} adds", "This adds")), f"{groups}*{each}", thing[1]
    )
    return problem.step(draw.pick(("Together that is", "So there are now", f"{who.name} ends up with")),
                        f"{count}+{added}", thing[1])  # fmt: skip


def _fraction(draw: Draw, problem: Problem, who: Person, other: Person, thing: tuple[str, str], count: int) -> int:
    parts = next((part for part in (draw.between(2, 6), 2, 3, 5) if count % part == 0 and count > part), 0)
    if not parts:
        return _gain(draw, problem, who, other, thing, count)
    named = {2: "Half", 3: "A third", 4: "A quarter", 5: "A fifth", 6: "A sixth"}[parts]
    problem.sentences.append(draw.pick((
        f"{named} of them go to {other.name} in {draw.pick(words.TOWNS)}.",
        f"{named} of what {who.they} holds is sold {draw.pick(words.WHEN)}.",
        f"{named} are set aside for the {draw.pick(words.PLACES)}.",
    )))  # fmt: skip
    gone = problem.step(draw.pick((f"{named} is", "The part that goes is")), f"{count}/{parts}", thing[1])
    return problem.step(draw.pick(("What remains is", f"{who.name} keeps", "This leaves")), f"{count}-{gone}", thing[1])


EVENTS: tuple[Event, ...] = (_gain, _loss, _multiply, _refill, _fraction)


def _ending(draw: Draw, problem: Problem, who: Person, other: Person, thing: tuple[str, str], count: int) -> Problem:
    one, many = thing
    divisors = [k for k in range(3, 13) if count % k == 0 and count > k]
    kind = draw.between(0, 3)
    if kind == 0 and divisors:
        shares = draw.pick(divisors)
        problem.sentences.append(draw.pick((
            f"If {who.name} shares them fairly among {shares} people, how many {many} does each person get?",
            f"They are laid out in {shares} equal rows; how many {many} are in a row?",
            f"How many {many} go into each of {shares} {draw.pick(words.CONTAINERS)}s if all are filled alike?",
        )))  # fmt: skip
        problem.step(draw.pick(("Each gets", "One share is")), f"{count}/{shares}", many)
    elif kind == 1:
        price = draw.between(2, 9)
        problem.sentences.append(draw.pick((
            f"At ${price} for one {one}, what do all of them bring?",
            f"A dealer in {draw.pick(words.TOWNS)} pays ${price} per {one}. What is the sum?",
            f"How many dollars does {who.name} get at ${price} per {one}?",
        )))  # fmt: skip
        problem.step(draw.pick(("The money is", f"At ${price} each that is")), f"{count}*{price}", "", money=True)
    elif kind == 2:
        apart = draw.between(3, 29)
        problem.sentences.append(draw.pick((
            f"{other.name} has {apart} more {many}. How many do {who.name} and {other.name} have?",
            f"If {other.name} owns {apart} more than {who.name}, what is their total?",
        )))  # fmt: skip
        theirs = problem.step(f"{other.name} has", f"{count}+{apart}", many)
        problem.step(draw.pick(("Together they have", "In all that is")), f"{count}+{theirs}", many)
    else:
        problem.sentences.append(draw.pick((
            f"How many {many} does {who.name} have now?",
            f"What is the number of {many} in the end?",
            f"How many {many} are left with {who.name}?",
            f"Now how many {many} are there?",
        )))  # fmt: skip
    return problem


def _wages(draw: Draw) -> Problem:
    problem, who = Problem(), draw.person()
    rate, hours, days, cost = draw.between(7, 89), draw.between(2, 11), draw.between(3, 28), draw.between(5, 40)
    job, place, town = draw.pick(words.JOBS), draw.pick(words.PLACES), draw.pick(words.TOWNS)
    problem.sentences += [
        draw.pick((
            f"{who.name} earns ${rate} an hour {job} in {town}.",
            f"For {job} near the {place}, {who.name} is paid ${rate} per hour.",
            f"The {place} in {town} offers {who.name} ${rate} for every hour of {job}.",
        )),
        draw.pick((
            f"{who.they.capitalize()} works {hours} hours a day for {days} days.",
            f"Each of {days} shifts takes {who.them} {hours} hours.",
        )),
        draw.pick((
            f"{_start(draw.pick(words.COSTS))} takes ${cost}. How many dollars remain?",
            f"{draw.person().name} borrows ${cost} of that. What is left?",
        )),
    ]  # fmt: skip
    total = problem.step(draw.pick((f"{who.name} works", "The hours add up to")), f"{hours}*{days}", "hours")
    paid = problem.step(draw.pick(("The pay is", f"For {job} that is")), f"{total}*{rate}", "", money=True)
    problem.step(draw.pick(("What remains is", "After the costs there is")), f"{paid}-{cost}", "", money=True)
    return problem


def _journey(draw: Draw) -> Problem:
    problem, vehicle = Problem(), draw.pick(words.VEHICLES)
    speed, hours, slower, more = draw.between(24, 184), draw.between(2, 19), draw.between(2, 19), draw.between(2, 19)
    start, end = _different(draw, words.TOWNS, 2)
    problem.sentences += [
        draw.pick((
            f"A {vehicle} leaves {start} for {end} at {speed} km per hour for {hours} hours.",
            f"From {start}, a {vehicle} moves at {speed} km an hour during {hours} hours.",
            f"During {hours} hours a {vehicle} out of {start} covers {speed} km each hour.",
        )),
        draw.pick((
            f"Then {draw.pick(words.WEATHER)} slows it by {slower} km per hour for {more} hours.",
            f"After that, {draw.pick(words.WEATHER)} costs it {slower} km per hour; {more} hours remain.",
        )),
        draw.pick((f"How far is {end}?", f"What distance did the {vehicle} cover?", f"How far is {end} from {start}?")),
    ]  # fmt: skip
    first = problem.step(draw.pick(("The first stretch is", f"Out of {start} it covers")), f"{speed}*{hours}", "km")
    pace = problem.step(draw.pick(("Its speed drops to", "Later it goes")), f"{speed}-{slower}", "km per hour")
    second = problem.step(draw.pick(("The second stretch is", "At that speed it covers")), f"{pace}*{more}", "km")
    problem.step(draw.pick(("The whole way is", f"To {end} it is")), f"{first}+{second}", "km")
    return problem


def _plot(draw: Draw) -> Problem:
    problem, who, plot = Problem(), draw.person(), draw.pick(words.PLOTS)
    wide, longer, price = draw.between(4, 98), draw.between(2, 49), draw.between(2, 48)
    look = draw.pick(words.ADJECTIVES)
    problem.sentences += [
        draw.pick((
            f"{who.name}'s {plot} in {draw.pick(words.TOWNS)} is {wide} m wide and {longer} m longer than wide.",
            f"A rectangular {plot} behind the {draw.pick(words.PLACES)} is {wide} m wide; it is {longer} m longer.",
        )),
        draw.pick((
            f"What does a {look} {draw.pick(words.EDGES)} around it cost at ${price} a metre?",
            f"{draw.person().name} asks ${price} per metre of {look} {draw.pick(words.EDGES)}. What do all sides cost?",
        )),
    ]  # fmt: skip
    length = problem.step(draw.pick(("The length is", f"The {plot} is")), f"{wide}+{longer}", "m")
    half = problem.step("Width and length make", f"{wide}+{length}", "m")
    around = problem.step(draw.pick(("All around it is", "The edge measures")), f"{half}*2", "m")
    problem.step(draw.pick(("The price is", f"At ${price} a metre that is")), f"{around}*{price}", "", money=True)
    return problem


def _recipe(draw: Draw) -> Problem:
    problem, who, other = Problem(), draw.person(), draw.person()
    dish, stuff = draw.pick(words.DISHES), draw.pick(words.INGREDIENTS)
    serves, amount, batches, have = draw.between(2, 16), draw.between(7, 48), draw.between(3, 19), draw.between(2, 19)
    problem.sentences += [
        draw.pick((
            f"{who.name}'s {dish} for {serves} guests takes {amount} {stuff}.",
            f"To make {dish} for {serves}, {who.name} needs {amount} {stuff}.",
            f"One pot of {dish} uses {amount} {stuff} and feeds {serves} people at the {draw.pick(words.PLACES)}.",
        )),
        draw.pick((
            f"{_start(draw.pick(words.WHEN))} {serves * batches} guests come; {other.name} brings {have} {stuff}.",
            f"{other.name} expects {serves * batches} eaters in {draw.pick(words.TOWNS)} and owns {have} {stuff}.",
        )),
        draw.pick((f"How many {stuff} are missing?", f"How many more must {who.name} buy?")),
    ]  # fmt: skip
    times = problem.step(
        draw.pick(("The recipe is made", f"The {dish} is cooked")), f"{serves * batches}/{serves}", "times"
    )
    need = problem.step(draw.pick(("That takes", f"{who.name} needs")), f"{times}*{amount}", stuff)
    problem.step(draw.pick(("Still missing are", f"Without what {other.name} has that is")), f"{need}-{have}", stuff)
    return problem


def _purchase(draw: Draw) -> Problem:
    problem, who = Problem(), draw.person()
    (one, many), (other_one, other_many) = _different(draw, words.THINGS, 2)
    count, price, other_count, other_price = (
        draw.between(2, 12), draw.between(2, 19), draw.between(2, 12), draw.between(2, 19)
    )  # fmt: skip
    total, town = count * price + other_count * other_price, draw.pick(words.TOWNS)
    note = total + draw.between(4, 88)
    problem.sentences += [
        draw.pick((
            f"The {draw.pick(words.PLACES)} in {town} asks ${price} per {one} and ${other_price} per {other_one}.",
            f"{who.name} sees {many} at ${price} and {other_many} at ${other_price} apiece in {town}.",
        )),
        draw.pick((
            f"{who.they.capitalize()} takes {count} {many} and {other_count} {other_many}.",
            f"{who.name}'s {draw.pick(words.RELATIVES)} asks for {count} {many} plus {other_count} {other_many}.",
        )),
        draw.pick((
            f"Out of ${note}, how many dollars of change come back?",
            f"{who.name} had ${note} in {who.their} pocket. How much stays there?",
        )),
    ]  # fmt: skip
    first = problem.step(f"The {many} cost", f"{count}*{price}", "", money=True)
    second = problem.step(f"The {other_many} cost", f"{other_count}*{other_price}", "", money=True)
    both = problem.step(draw.pick(("Together that is", f"{who.name} pays")), f"{first}+{second}", "", money=True)
    problem.step(draw.pick(("The change is", "What stays is")), f"{note}-{both}", "", money=True)
    return problem


def _ages(draw: Draw) -> Problem:
    problem, who, other, third = Problem(), draw.person(), draw.person(), draw.person()
    age, factor, apart, years = draw.between(4, 23), draw.between(2, 4), draw.between(2, 19), draw.between(2, 29)
    times = {2: "twice", 3: "three times", 4: "four times"}[factor]
    problem.sentences += [
        draw.pick((
            f"{who.name} from {draw.pick(words.TOWNS)} turned {age} {draw.pick(words.WHEN)}.",
            f"{who.name}, {other.name}'s {draw.pick(words.RELATIVES)}, is {age} years old.",
        )),
        draw.pick((f"{other.name} is {times} as old.", f"{times.capitalize()} that is the age of {other.name}.")),
        draw.pick((
            f"{third.name} is {apart} years older than {other.name}. How old will {third.name} be in {years} years?",
            f"In {years} years, what will be the age of {third.name}, who is {apart} years older than {other.name}?",
        )),
    ]  # fmt: skip
    theirs = problem.step(f"{other.name} is", f"{age}*{factor}", "years old")
    now = problem.step(f"{third.name} is", f"{theirs}+{apart}", "years old")
    problem.step(draw.pick((f"In {years} years that will be", "Later it is")), f"{now}+{years}", "years old")
    return problem


type Story = Callable[[Draw], Problem]
STORIES: tuple[Story, ...] = (
    *(_collection,) * 9, _wages, _journey, _plot, _recipe, _purchase, _ages
)  # fmt: skip
