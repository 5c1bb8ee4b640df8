"""Regions of bytes and of steps: a provider and one of its regions. A region is never part of an identity."""

from __future__ import annotations

import re

from msgspec import Struct

from marin.errors import BadField, BadPrefix

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


class Region(Struct, frozen=True):
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
    from marin.store.objects.clients import REMOTE, asking

    scheme, _, rest = url.partition("://")
    if scheme not in REMOTE or not rest:
        return None
    with asking(f"{scheme}://{rest.split('/')[0]}", "describe") as (files, bucket):
        if scheme == "gs":
            answer = files.call("GET", "b/{}", bucket, json_out=True)
            both = answer.get("customPlacementConfig", {}).get("dataLocations", [])
            return Region(GOOGLE, ("+".join(both) or answer["location"]).lower())
        # This call needs only the permission to list the bucket. The call for its location needs another one.
        answer = files.call_s3("head_bucket", Bucket=bucket)
        if not is_amazon(server := files.s3.meta.endpoint_url):
            raise BadPrefix(f"s3://{bucket} is on {server}, which is not Amazon's: its regions are unknown")
        return Region(AMAZON, answer["BucketRegion"].lower())


def is_amazon(server: str) -> bool:
    """Is this URL of an Amazon server, or of an emulator on this machine?

    Other servers also speak S3, but name regions as they like.
    """
    from urllib.parse import urlsplit

    host = urlsplit(server).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn")) or host in ("localhost", "127.0.0.1", "::1")
