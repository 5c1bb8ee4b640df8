"""Where following stops: the engine.

The engine decides when code runs, not what it makes, and its own formats carry versions (records,
manifests, canonical encoding). Following it would make every output of a lab drift with each
release of the executor. A new module in ``marin/`` that is not named here is followed.
"""

from __future__ import annotations

ENGINE = frozenset(
    "marin." + name
    for name in (
        "backends",
        "cli",
        "context",
        "cost",
        "directory",
        "errors",
        "executor",
        "experiment",
        "explain",
        "fingerprint",
        "identity",
        "lease",
        "lineage",
        "manifest",
        "plan",
        "progress",
        "records",
        "resources",
        "run",
        "scale",
        "scheduler",
        "step",
        "store",
        "value",
    )
)

# marin.artifact holds both: the artifact classes say what a step returns and are followed, these are not.
ENGINE_SYMBOLS = frozenset({("marin.artifact", name) for name in ("Artifact", "KINDS", "artifact_from")})


def is_engine(module: str, symbol: str = "") -> bool:
    """Whether a dotted module, or one name in it, belongs to the engine."""
    return ".".join(module.split(".")[:2]) in ENGINE or (module, symbol) in ENGINE_SYMBOLS
