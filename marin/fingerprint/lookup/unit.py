"""Units: what one top-level name stands for, with every name in it resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from marin.fingerprint.source.module import Module
from marin.fingerprint.source.unit_source import UnitSource

CONTENT = "<content>"  # of a file as it is
HERE = "bound here"  # what a name leads to that its module binds itself, and imports too

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


@dataclass
class Unit:
    """text: normalised source, and where imported names lead. leads: the units it uses directly.

    handed: classes given to calls that may look into them. loads: modules that it
    imports. packages: versions by distribution; tops: the modules of these. inspected: a base or decorator of a package
    may read its annotations and docstrings. notes: what is not seen, or covered only by counting much.
    """

    text: str
    piece: UnitSource
    leads: dict[Key, None] = field(default_factory=dict[Key, None])
    handed: dict[Key, None] = field(default_factory=dict[Key, None])
    loads: dict[Module, None] = field(default_factory=dict[Module, None])
    packages: dict[str, str] = field(default_factory=dict[str, str])
    tops: set[str] = field(default_factory=set[str])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    inspected: bool = False
