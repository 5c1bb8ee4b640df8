"""Pinned: a step that stands for one output of the store, by the digest of its bytes."""

from __future__ import annotations

import re

from marin.errors import BadField, StepFailed
from marin.steps.artifact import Artifact
from marin.steps.step import Context, ExecutorStep, Pin
from marin.steps.value import execution


class Pinned[A: Artifact](ExecutorStep[A], op="pinned"):
    """An output that exists, named by its place and the digest of its bytes.

    ::

        documents: Pinned[Documents] = Pinned(at="adopt/dolmino-0123456789ab.0001", digest="89ab…")

    at: the output's directory below the store's prefix, as ``marin ls`` prints it; not part of the identity. digest:
    the root digest of its bytes (64 hex digits). The plan refuses a pin whose output is missing, holds other bytes or
    was revoked. Before the first use marin checks every byte. The plan stops if the code of the output, or anything it
    was built from, has changed, unless because says why the change does not matter. Lineage continues through a pin.
    For data outside the store use ``marin adopt`` first. Raises BadField without a digest: a path alone does not tell
    its contents.
    """

    digest: str = ""
    at: str = execution(default="")
    because: str = execution(default="")

    def check(self) -> None:
        if not self.at or self.at.startswith("/") or ".." in self.at.split("/") or "://" in self.at:
            raise BadField(
                f"Pinned.at is {self.at!r}; wanted an output of the store as `marin ls` prints it, "
                "e.g. 'tokenize/dolmino-0123456789ab.0001'; bring outside data in with `marin adopt`"
            )
        if not re.fullmatch(r"[0-9a-f]{64}", self.digest):
            raise BadField(
                f"Pinned({self.at!r}).digest is {self.digest!r}; wanted the 64 hex digits of its bytes, which "
                f"`marin ls --json` and `marin adopt` print: a path alone does not tell its contents"
            )

    @property
    def pin(self) -> Pin:
        return Pin(at=self.at, digest=self.digest, because=self.because.strip())

    def run(self, ctx: Context) -> A:
        raise StepFailed(f"{self.name}: a pin is never made; make or adopt {self.at} first")
