"""What moving bytes out of a region costs, by the providers' public price lists: an estimate.

First tiers, without the free allowances and without contracts, so a little to the dear side. US dollars per GiB.

Google https://cloud.google.com/storage/pricing (Network), as it was in 2025. Within Google Cloud: inside a region, or
between a bucket in two regions and one of them, nothing; otherwise by the two continents. A bucket on a whole
continent ("us") is charged as another region of it, since October 2022.
Amazon https://aws.amazon.com/s3/pricing/ (Data transfer), as it was in 2025: by the region that the bytes leave.
"""

from __future__ import annotations

from marin.region import AMAZON, GOOGLE, LOCAL, Continent, Region

NOTE = "list price, an estimate"

_GOOGLE_WITHIN = {
    Continent.NORTH_AMERICA: 0.02,
    Continent.EUROPE: 0.02,
    Continent.ASIA: 0.08,
    Continent.OCEANIA: 0.08,
    Continent.MIDDLE_EAST: 0.08,
    Continent.AFRICA: 0.11,
    Continent.SOUTH_AMERICA: 0.14,
}
_GOOGLE_BETWEEN = {  # the dearer end counts: 0.05 between North America and Europe, 0.14 from either to South America
    Continent.NORTH_AMERICA: 0.05,
    Continent.EUROPE: 0.05,
    Continent.ASIA: 0.08,
    Continent.OCEANIA: 0.10,
    Continent.MIDDLE_EAST: 0.11,
    Continent.AFRICA: 0.11,
    Continent.SOUTH_AMERICA: 0.14,
}
_GOOGLE_OUT = {continent: 0.12 for continent in Continent} | {Continent.OCEANIA: 0.19}
_AMAZON_BETWEEN = {
    Continent.NORTH_AMERICA: 0.02,
    Continent.EUROPE: 0.02,
    Continent.ASIA: 0.09,
    Continent.OCEANIA: 0.098,
    Continent.MIDDLE_EAST: 0.1105,
    Continent.SOUTH_AMERICA: 0.138,
    Continent.AFRICA: 0.147,
}
_AMAZON_OUT = {
    Continent.NORTH_AMERICA: 0.09,
    Continent.EUROPE: 0.09,
    Continent.ASIA: 0.114,
    Continent.OCEANIA: 0.114,
    Continent.MIDDLE_EAST: 0.117,
    Continent.SOUTH_AMERICA: 0.15,
    Continent.AFRICA: 0.154,
}


def dollars_per_gib(source: Region, target: Region) -> float | None:
    """None where the price is not known. What comes into a cloud from a machine outside of any costs nothing."""
    if source.is_where(target) or source.provider == LOCAL:
        return 0.0
    here, there = source.continent, target.continent
    if here is None or source.provider not in (GOOGLE, AMAZON):
        return None
    if target.provider != source.provider:
        return (_GOOGLE_OUT if source.provider == GOOGLE else _AMAZON_OUT)[here]
    if source.provider == AMAZON:
        return _AMAZON_BETWEEN[here]
    if there is None:
        return None
    return _GOOGLE_WITHIN[here] if here is there else max(_GOOGLE_BETWEEN[here], _GOOGLE_BETWEEN[there])
