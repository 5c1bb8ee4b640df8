"""The vocabulary of generated word problems."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


SHE = _words(
    """
    Ada Amara Beatriz Chiara Dalia Elena Farah Greta Hana Ingrid Jasmine Keiko Leila Maya Nadia Olga Priya Ronja
    Salma Tamar Uma Vera Wanda Ximena Yara Zoe Aisha Brigid Celia Doreen Esther Fiona Gloria Helga Imani Judith
    Karina Lucia Mireille Noor
    """
)
HE = _words(
    """
    Abel Bilal Carlos Dmitri Emeka Felix Goran Hugo Ivan Jamal Kenji Luis Mateo Nils Omar Pavel Quentin Rashid
    Stefan Tomas Ulrich Victor Walter Xavier Yusuf Zoltan Anders Bruno Cedric Diego Enzo Faisal Gideon Hamid
    Igor Joaquin Kofi Lars Marcel Nikhil
    """
)
# singular:plural
_THINGS = _words(
    """
    marble:marbles stamp:stamps seashell:seashells candle:candles button:buttons postcard:postcards
    pebble:pebbles tulip:tulips lantern:lanterns teacup:teacups puzzle:puzzles ribbon:ribbons acorn:acorns
    magnet:magnets bracelet:bracelets notebook:notebooks pumpkin:pumpkins kite:kites spoon:spoons
    feather:feathers coaster:coasters badge:badges bulb:bulbs scarf:scarves whistle:whistles lemon:lemons
    brush:brushes poster:posters hinge:hinges tile:tiles muffin:muffins walnut:walnuts crayon:crayons
    battery:batteries mug:mugs dumpling:dumplings seedling:seedlings gear:gears balloon:balloons map:maps
    """
)
THINGS = tuple((pair.split(":")[0], pair.split(":")[1]) for pair in _THINGS)
ADJECTIVES = _words(
    """
    red blue wooden painted tiny glass silver striped old polished green ceramic folded heavy bright plain
    carved yellow woven spotted copper square rare faded
    """
)
CONTAINERS = _words(
    """
    basket drawer crate case tin sack chest jar suitcase cupboard bucket trunk barrel satchel cabinet
    """
)
PLACES = _words(
    """
    harbour market library bakery workshop school fair village museum garage station orchard studio canteen
    chapel greenhouse warehouse kiosk clinic theatre depot mill pavilion arcade
    """
)
WHEN = tuple(
    f"{lead} {day}"
    for lead in ("on", "last", "early on", "late on", "by noon on")
    for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
)
TOWNS = _words(
    """
    Arlen Bergstad Cordova Dunmore Elvas Fjordby Galena Harwick Ilmenau Jarrow Kestrel Lodi Marrow Norwick
    Ostend Porto Quill Rosedale Selby Tarifa
    """
)
RELATIVES = _words(
    """
    sister uncle neighbour cousin teacher aunt classmate grandfather coach friend
    """
)
VEHICLES = _words(
    """
    bus tram cyclist ferry lorry train canoe scooter coach minibus
    """
)
DISHES = _words(
    """
    soup lasagne bread curry pancakes jam stew risotto noodles pie salad chutney
    """
)
JOBS = _phrases(
    """
    mowing lawns, walking dogs, fixing bicycles, tutoring chemistry, painting fences, washing windows, sorting
    parcels, picking cherries, baking rolls, repairing radios, editing videos, moving furniture
    """
)
INGREDIENTS = _phrases(
    """
    cups of flour, grams of butter, carrots, eggs, spoons of sugar, onions, cups of rice, tomatoes, cloves of
    garlic, potatoes, apples, cups of milk
    """
)
PLOTS = _phrases(
    """
    garden, courtyard, field, carpet, banner, parking lot, stage, vegetable patch, terrace, wall
    """
)
FLAWS = _words("broken dusty bent wet cracked loose mouldy torn")
COSTS = _words("lunch tools gloves tickets paint parking soap fuel")
WEATHER = _words("rain wind snow traffic fog mud ice roadworks waves sand hail heat")
EDGES = _words("fence hedge border rope frame rail kerb trim wall ditch path gutter")
