"""Where following stops: the engine.

The engine decides when code runs, not what it makes, and its own formats carry versions (records,
manifests, canonical encoding). Following it would make every output of a lab drift with each
release of the executor. So in ``marin`` only the library is followed; all else there is engine.
A test holds operators and the library to CONTRACT: what they may import of the engine.
"""

from __future__ import annotations

from marin.fingerprint.observation.origin import LIBRARY

CONTRACT = frozenset(
    {
        "errors",
        "fingerprint.observation.listening",
        "fingerprint.observation.observation",
        "fingerprint.observation.origin",
        "steps.artifact",
        "steps.lifetime",
        "steps.reaches",
        "steps.resources",
        "steps.scale",
        "steps.step",
        "steps.value",
        "store.files.checksums",
        "store.files.directory",
    }
)


def is_engine(module: str) -> bool:
    """Whether a dotted module belongs to the engine."""
    top, _, rest = module.partition(".")
    if top != "marin" or not rest:  # marin/__init__ only passes names through
        return False
    return rest.split(".")[0] not in LIBRARY
