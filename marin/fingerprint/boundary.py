"""Where following stops: the engine.

The engine decides when code runs, not what it makes, and its own formats carry versions (records,
manifests, canonical encoding). Following it would make every output of a lab drift with each
release of the executor. So in ``marin`` only the library is followed; all else there is engine.
A test holds operators and the library to CONTRACT: what they may import of the engine.
"""

from __future__ import annotations

from marin.origin import LIBRARY

CONTRACT = frozenset(
    {
        "context",
        "directory",
        "errors",
        "lifetime",
        "listening",
        "observation",
        "origin",
        "reach",
        "resources",
        "scale",
        "step",
        "value",
    }
)

# marin.artifact holds both: the artifact classes say what a step returns and are followed, these are not.
_ENGINE_SYMBOLS = frozenset({("marin.artifact", name) for name in ("Artifact", "KINDS", "artifact_from")})


def is_engine(module: str, symbol: str = "") -> bool:
    """Whether a dotted module, or one name in it, belongs to the engine."""
    top, _, rest = module.partition(".")
    if top != "marin" or not rest:  # marin/__init__ only passes names through
        return False
    return rest.split(".")[0] not in LIBRARY or (module, symbol) in _ENGINE_SYMBOLS
