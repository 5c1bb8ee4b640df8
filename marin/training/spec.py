"""Everything a training process needs to know, as one JSON file."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from marin.training.lora import LoRA
from marin.training.model import ModelShape, Precision, Recompute
from marin.training.optimizer import Optimizer
from marin.training.schedule import Schedule
from marin.training.tracking import Tracked

if TYPE_CHECKING:
    from pydantic import TypeAdapter


PROFILE = "perfetto_trace.json.gz"  # in the work in progress, and in the output


class StartMode(Enum):
    """What is taken from another run's checkpoint."""

    WARM = "warm"  # weights with the same path; the rest is fresh, also optimizer and average
    WARM_ALL = "warm_all"  # also the optimizer state of those weights, and its histories
    WEIGHTS = "weights"  # all weights and their average; a fresh optimizer
    ALL = "all"  # also the optimizer state


@dataclass(frozen=True, kw_only=True)
class Start:
    """checkpoint: directory URL. clip_history: that of another one, whose history the clip begins with.

    rebuild: batches before the first step that moments and histories are made from, before anything is trained.
    """

    mode: StartMode
    checkpoint: str
    clip_history: str | None = None
    rebuild: int = 0


@dataclass(frozen=True, kw_only=True)
class Source:
    """A token store. name: what metrics call it, unique in a run. store: directory URL."""

    name: str
    store: str


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Texts to write on from. tokens: of each, with what stands before it. most: tokens that are written after each.

    tokenizer: directory URL.
    """

    texts: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    most: int
    tokenizer: str


@dataclass(frozen=True, kw_only=True)
class Watched:
    """Looks at the weights. every: optimizer steps between two of them.

    directory: URL of the folder with held_out.npz, None without held-out text. separator: the id after which attention
    starts anew in it, None for attention across documents.
    """

    every: int
    directory: str | None = None
    separator: int | None = None
    prompts: Prompts | None = None


@dataclass(frozen=True, kw_only=True)
class Process:
    """One of several that train together. number: from 0, which leads. meeting: address and port where that listens."""

    number: int
    count: int
    meeting: str


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """One process of one run.

    stages: first optimizer step → share of each source, by its name. interpolations: first optimizer step of a stage →
    steps over which it is gone over to. batch: first optimizer step → sequences. shuffle, seed, block, max_epochs,
    allow_starved: see marin.data.order_spec.OrderSpec. lengths: first optimizer step → tokens of a sequence, of the
    runs that this one goes on from, too; none where it was always seq_len.
    separate_documents: whether attention stops at document boundaries. Steps first_step … end_step - 1
    are trained. state: directory URL of the resumable work. checkpoint_every: steps between
    checkpoints; checkpoint_minutes: a further one when so much time has passed. keep_steps: checkpoints that stay,
    besides the last two. compiled: local folder that keeps compiled programs between processes, None for none.
    tracked: as what W&B or trackio show it, None for not at all. watch: what to look at on the way.
    peak_flops: FLOP/s that all chips together have at most, 0 where nobody knows. code: digest of the code that
    this process runs, "" where nobody knows. profile: first and last step of a trace for Perfetto. process: which of
    several this is, None for the only one. hang_minutes: see marin.training.hanging. tensor: see
    marin.training.chips. before: the token id that stands before each text of the sources, None where nobody knows.
    sequences_per_device: those that one device, or group of ``tensor``, works on at once; None for its whole share of
    the batch. lora: the adapters that are trained, None where the model's own weights are.
    """

    model: ModelShape
    vocabulary: int
    optimizer: Optimizer
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
    checkpoint_minutes: float | None = None
    max_epochs: float = 4.0
    allow_starved: tuple[str, ...] = ()
    lengths: dict[int, int] = field(default_factory=dict[int, int])
    interpolations: dict[int, int] = field(default_factory=dict[int, int])
    start: Start | None = None
    keep_steps: tuple[int, ...] = ()
    compiled: str | None = None
    tracked: Tracked | None = None
    watch: Watched | None = None
    peak_flops: float = 0.0
    code: str = ""
    profile: tuple[int, int] | None = None
    process: Process | None = None
    hang_minutes: float | None = None
    tensor: int = 1
    before: int | None = None
    sequences_per_device: int | None = None
    lora: LoRA | None = None


def to_json(spec: TrainingSpec) -> str:
    return _adapter().dump_json(spec, indent=1).decode()


def from_json(text: str) -> TrainingSpec:
    """Raises pydantic.ValidationError naming the field that does not fit."""
    return _adapter().validate_json(text)


def _adapter() -> TypeAdapter[TrainingSpec]:
    from pydantic import TypeAdapter

    return TypeAdapter(TrainingSpec)
