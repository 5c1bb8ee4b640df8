"""Count the bytes that a plan moves between regions, and hold the budget above which a run does not start."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict

from marin.errors import BadField, EgressOverBudget, StoreError, UnknownRegion
from marin.steps.step import ExecutorStep
from marin.store.numbers import listed, write_bytes
from marin.store.region import Region, bucket_region, parse_region

BUDGET = 10 << 30  # bytes; more than a rehearsal moves, less than a token store or a checkpoint of the real thing
NAMED = 8  # steps that are named in a refusal
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*(?:([KMGTP])(i?)B|B?)", re.ASCII | re.IGNORECASE)


class Amount(Struct, frozen=True):
    """An amount of bytes. Some may be estimated, and some may not be known yet."""

    bytes: int = 0
    estimated: int = 0  # the part of ``bytes`` that is a guess: see marin.plan.cost.plan_cost
    unknown: tuple[str, ...] = ()  # names of outputs whose size nobody can know before they are built

    def __add__(self, other: Amount) -> Amount:
        return total((self, other))

    def __bool__(self) -> bool:
        return bool(self.bytes or self.unknown)


def total(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of the amounts in one pass, because many steps may each have an output of unknown size."""
    every = list(amounts)
    unknown = dict.fromkeys(name for amount in every for name in amount.unknown)
    return Amount(sum(each.bytes for each in every), sum(each.estimated for each in every), tuple(unknown))


def parse_size(text: str) -> int:
    """Return the bytes that a text such as ``500GiB``, ``1.5 TB``, ``0`` or ``4096`` says. Raises BadField."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise BadField(f"{text!r} is no size; wanted a number and a unit, such as 500GiB, 1.5TiB or 0")
    power = " KMGTP".index((found[2] or " ").upper())
    return round(float(found[1]) * (1024 if found[3] else 1000) ** power)


class Route(NamedTuple):
    """The way of bytes that leave the source region for the target region."""

    source: Region
    target: Region

    def __str__(self) -> str:
        return f"{self.source} → {self.target}"


class Egress(Struct, frozen=True):
    """Bytes that cross regions, by route. Bytes that stay within one region have no entry."""

    by_route: Mapping[Route, Amount] = field(default_factory=dict[Route, Amount])

    @property
    def amount(self) -> Amount:
        return total(self.by_route.values())

    def to_json(self) -> dict[str, Any]:
        """Return the form that events keep."""
        routes = [
            {"from": str(route.source), "to": str(route.target), **asdict(amount)}
            for route, amount in self.by_route.items()
        ]
        return {**asdict(self.amount), "routes": routes}

    def describe(self) -> list[str]:
        """Return one line for each route: ``gcp/us-east5 → local: ~1.2 TiB``."""
        return [f"{route}: {write_known(amount)}" for route, amount in self.by_route.items()]


def total_egress(every: Iterable[Egress]) -> Egress:
    by_route: dict[Route, list[Amount]] = {}
    for egress in every:
        for route, amount in egress.by_route.items():
            by_route.setdefault(route, []).append(amount)
    return Egress({route: total(amounts) for route, amounts in by_route.items()})


def write_known(amount: Amount) -> str:
    """Return the amount as text, with words if nothing is known yet."""
    if not amount.bytes and amount.unknown:
        return "nobody knows yet how many bytes"
    return ("≥ " if amount.unknown else "") + ("~" if amount.estimated else "") + write_bytes(amount.bytes)


def route_between(source: Region, target: Region, amount: Amount) -> Egress:
    """Return the bytes from source to target; nothing if both are in one region."""
    return Egress({Route(source, target): amount} if amount and not source.is_where(target) else {})


class Regions:
    """The regions of the store and the steps of one command.

    marin asks a bucket for its region once, and only if the region of a step is known.

    declared: the region of steps that name none. store_region: the store's region, instead of asking the bucket.
    unchecked: buckets whose region cannot be learnt, and why; bytes read from these buckets may cross regions.
    """

    def __init__(
        self,
        prefix: str,
        declared: Region | None = None,
        store_region: Region | None = None,
        ask: Callable[[str], Region | None] = bucket_region,
    ) -> None:
        self.prefix, self.declared = prefix, declared
        self.unchecked: dict[str, str] = {}
        self._ask = ask
        self._of_bucket: dict[str, Region | None] = {}
        if store_region is not None:
            self._of_bucket[_bucket(prefix)] = store_region

    def of(self, step: ExecutorStep[Any]) -> Region | None:
        """Return the region where a step runs; None if nobody says."""
        return parse_region(step.resources.region) if step.resources.region else self.declared

    def store(self) -> Region | None:
        """Return the store's region; None for a store on the machines that use it.

        Raises UnknownRegion if the bucket does not say its region.
        """
        return self._region(self.prefix)

    def egress(self, step: ExecutorStep[Any], reads: Amount, writes: Amount, *, outside: bool = True) -> Egress | None:
        """Return the bytes of a step's inputs, outside data and output that cross regions.

        The result is None if nobody says where the step runs. Raises UnknownRegion.
        """
        here = self.of(step)
        if here is None:
            return None
        moved: list[Egress] = []
        store = self.store()
        if store is not None:
            moved += [route_between(store, here, reads), route_between(here, store, writes)]
        for url, count in step.outside_bytes().items() if outside else ():
            try:
                there = self._region(url)
            except UnknownRegion as error:
                self.unchecked[_bucket(url)] = str(error)
                continue
            if there is not None:
                moved.append(route_between(there, here, Amount(count)))
        return total_egress(moved)

    def _region(self, url: str) -> Region | None:
        bucket = _bucket(url)
        if bucket not in self._of_bucket:
            try:
                self._of_bucket[bucket] = self._ask(url)
            except StoreError as error:
                raise UnknownRegion(
                    f"marin cannot find out the region of {bucket}, so it cannot count egress: {error}\n"
                    "Allow this account to ask for the region (Google: storage.buckets.get, Amazon: s3:ListBucket), or "
                    "give the region of the store: --store-region gcp/us-central2"
                ) from error
        return self._of_bucket[bucket]


def _bucket(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.split('/')[0]}" if rest else url


class Allowance(Struct, frozen=True, kw_only=True):
    """The bytes that may cross regions."""

    stated: int | None = None  # the budget that somebody stated; None: BUDGET, if all sizes are known before
    because: str = ""  # why a run may exceed it; "" if it may not

    @property
    def budget(self) -> int:
        return BUDGET if self.stated is None else self.stated


def exceeds(amount: Amount, allowance: Allowance) -> bool:
    """Return whether the amount may exceed the budget.

    It does if the known bytes exceed the budget, or if a size is unknown and nobody stated a budget above 0.
    """
    return amount.bytes > allowance.budget or (not allowance.stated and bool(amount.unknown))


def must_be_allowed(by_step: Iterable[tuple[str, Egress]], allowance: Allowance, regions: Regions) -> None:
    """Raise EgressOverBudget if the moved bytes exceed the allowance.

    The message names the routes, the steps that move most, and the ways on. by_step: the bytes that each step moves.
    """
    moved = [(name, egress) for name, egress in by_step if egress.amount]
    whole = total_egress(egress for _, egress in moved)
    if allowance.because or not exceeds(whole.amount, allowance):
        return
    largest = sorted(moved, key=lambda pair: (-pair[1].amount.bytes, pair[0]))
    width = max(len(name) for name, _ in largest[:NAMED])
    store = regions.store()
    unknown = whole.amount.unknown
    about_unknown = f"The size of {len(unknown)} outputs is unknown: {listed(unknown, NAMED)}. State how much may cross"
    lines = [
        f"{write_known(whole.amount)} would cross regions, the budget is {write_bytes(allowance.budget)}. "
        "Nothing was started.",
        *([about_unknown] if unknown else []),
        *(f"  {line}" for line in whole.describe()),
        "Most of it:",
        *(f"  {name:{width}}  {write_known(egress.amount)}" for name, egress in largest[:NAMED]),
        *([f"  and {len(largest) - NAMED} more"] if len(largest) > NAMED else []),
        "Ways on:",
        *([f"  run where the store is: --region {store}, and Resources.region of steps that set it"] if store else []),
        f"  marin mirror STEP… --from {regions.prefix} --to P: copy the inputs to a store there; then --prefix P",
        "  --egress-budget SIZE: state how much may cross; a run that moves more starts no further step",
        '  --allow-egress "REASON": go on, this once; the reason is recorded',
    ]
    raise EgressOverBudget("\n".join(lines))
