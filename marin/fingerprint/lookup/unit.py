"""Units: what one top-level name stands for, with every name in it resolved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from marin.fingerprint.source.module import Module
from marin.fingerprint.source.unit_source import UnitSource

CONTENT = "<content>"  # of a file as it is

# Packages that build on annotations and docstrings wherever they find them.
READERS = frozenset(
    """
    apischema attr attrs beartype cattr cattrs dacite dataclasses_json draccus dspy fastapi fire hydra instructor
    jsonargparse langchain langchain_core mashumaro marshmallow marshmallow_dataclass msgspec omegaconf pandera plum
    pydantic pydantic_settings simple_parsing sqlmodel strawberry tyro typeguard typer
    """.split()  # noqa: SIM905
)
# Packages whose base classes and decorators ask at most whether an attribute is annotated.
INDIFFERENT = frozenset(
    """
    datatrove equinox flax haliax jax joblib levanter lm_eval matplotlib networkx numba numpy optax pytest ray scipy
    tokenizers torch tqdm transformers
    """.split()  # noqa: SIM905
)
# Packages whose C, C++ or Rust code opens files itself, so that Python does not hear of it.
READ_WITHOUT_PYTHON = frozenset(
    """
    deltalake duckdb h5py lance lancedb netCDF4 polars pyarrow safetensors sentencepiece tables tensorflow tokenizers
    zarr
    """.split()  # noqa: SIM905
)


class Key(NamedTuple):
    """A unit: a module and one of its top-level names, or ON_IMPORT, AS_SCRIPT or CONTENT."""

    module: Module
    name: str

    @property
    def qualified(self) -> str:
        if self.name == CONTENT:
            return self.module.name
        return f"{self.module.name}.{self.name}"


class Weight(IntEnum):
    """How bad it is that something is not seen. See references.Note."""

    NOTED = 0
    REFUSED = 1


@dataclass(frozen=True)
class Unit:
    """text: normalised source, and where imported names lead. leads: the units it uses directly.

    named: what its annotations name. handed: classes given to calls that may look into them. inspected: a base
    or decorator of a package may read its annotations and docstrings. tops: packages that it uses.
    """

    text: str
    piece: UnitSource
    leads: tuple[Key, ...] = ()
    named: tuple[Key, ...] = ()
    handed: tuple[Key, ...] = ()
    loads: tuple[Module, ...] = ()
    packages: tuple[tuple[str, str], ...] = ()
    tops: frozenset[str] = frozenset()
    notes: tuple[tuple[str, Weight], ...] = ()
    inspected: bool = False
