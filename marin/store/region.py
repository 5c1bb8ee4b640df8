"""Regions of bytes and of steps: a provider and one of its regions. A region is never part of an identity."""

from __future__ import annotations

import re
from dataclasses import dataclass

from marin.errors import BadField

GOOGLE, AMAZON, LOCAL = "gcp", "aws", "local"
_WRITTEN = re.compile(r"([a-z][a-z0-9-]*)/([a-z0-9][a-z0-9-]*(?:\+[a-z0-9][a-z0-9-]*)*)")
# Buckets in two regions (https://cloud.google.com/storage/docs/locations).
_PAIRS = {
    "nam4": ("us-central1", "us-east1"),
    "eur4": ("europe-north1", "europe-west4"),
    "eur5": ("europe-west1", "europe-west2"),
    "eur7": ("europe-west2", "europe-west3"),
    "eur8": ("europe-west3", "europe-west6"),
    "asia1": ("asia-northeast1", "asia-northeast2"),
}


@dataclass(frozen=True)
class Region:
    """A region, such as ``gcp/us-central2`` or ``aws/us-east-1``, or ``local`` for a machine in no cloud.

    name: as the provider writes it, in lower case. A bucket may also have a name that covers several regions: ``us``
    (somewhere on that continent), ``nam4``, ``us-central1+us-east1``.
    """

    provider: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}" if self.name else self.provider

    def is_where(self, other: Region) -> bool:
        """Do bytes that move between the two stay within one region? A bucket in two regions is in both."""
        return self.provider == other.provider and not self._names.isdisjoint(other._names)

    @property
    def _names(self) -> set[str]:
        return {self.name, *(_PAIRS.get(self.name) or self.name.split("+"))}


MACHINE = Region(LOCAL)


def parse_region(text: str) -> Region:
    """Parse the text that ``str`` gives. Raises BadField."""
    given = text.strip().lower()
    if given == LOCAL:
        return MACHINE
    found = _WRITTEN.fullmatch(given)
    if found is None:
        raise BadField(
            f"{text!r} is not a region; wanted a provider and its region, such as gcp/us-central2 or aws/us-east-1, or "
            "'local' for a machine in no cloud"
        )
    return Region(found[1], found[2])


def bucket_region(url: str) -> Region | None:
    """Ask the server for the region of the bucket of a ``gs://`` or ``s3://`` URL. Takes one call.

    Returns None for a path and for ``memory://``, which are on the machine that uses them. Raises StoreError,
    BadPrefix.
    """
    from marin.store.objects.clients import REMOTE, ask

    scheme, _, rest = url.partition("://")
    if scheme not in REMOTE or not rest:
        return None
    name = ask(f"{scheme}://{rest.split('/')[0]}", "describe", "location")
    return Region({"gs": GOOGLE, "s3": AMAZON}[scheme], name.lower())
