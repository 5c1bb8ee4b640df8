"""Everything a training process needs to know, as one JSON file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from marin.training.model import ModelShape, Precision, Recompute
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from marin.training.tracking import Tracked

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class StartMode(Enum):
    """What is taken from another run's checkpoint."""

    WARM = "warm"  # weights with the same path; the rest is fresh, also optimizer and average
    WARM_ALL = "warm_all"  # also the optimizer state of those weights, and its histories
    WEIGHTS = "weights"  # all weights and their average; a fresh optimizer
    ALL = "all"  # also the optimizer state


@dataclass(frozen=True, kw_only=True)
class Start:
    """checkpoint: directory URL."""

    mode: StartMode
    checkpoint: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """A token store. name: what metrics call it, unique in a run. store: directory URL."""

    name: str
    store: str


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """One process of one run.

    stages: first optimizer step → share of each source, by its name. batch: first optimizer step →
    sequences. shuffle, seed, block, max_epochs, allow_starved: see marin.data.order.OrderSpec.
    separate_documents: whether attention stops at document boundaries. Steps first_step … end_step - 1
    are trained. state: directory URL of the resumable work. keep_steps: checkpoints that stay, besides
    the last two. compiled: local folder that keeps compiled programs between processes, None for none.
    tracked: as what W&B or trackio show it, None for not at all.
    """

    model: ModelShape
    vocabulary: int
    optimizer: Adam
    schedule: Schedule
    precision: Precision
    recompute: Recompute
    sources: tuple[Source, ...]
    stages: dict[int, dict[str, float]]
    batch: dict[int, int]
    shuffle: str
    seed: int
    block: int
    seq_len: int
    separate_documents: bool
    first_step: int
    end_step: int
    state: str
    checkpoint_every: int
    max_epochs: float = 4.0
    allow_starved: tuple[str, ...] = ()
    start: Start | None = None
    keep_steps: tuple[int, ...] = ()
    compiled: str | None = None
    tracked: Tracked | None = None


def to_json(spec: TrainingSpec) -> str:
    return _adapter().dump_json(spec, indent=1).decode()


def from_json(text: str) -> TrainingSpec:
    """Raises pydantic.ValidationError naming the field that does not fit."""
    return _adapter().validate_json(text)


def _adapter() -> TypeAdapter[TrainingSpec]:
    from pydantic import TypeAdapter

    return TypeAdapter(TrainingSpec)
