"""The specification of a training process, as one JSON file."""

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
    """The parts that a run takes from another run's checkpoint."""

    WARM = "warm"  # weights with the same path; everything else is fresh, also optimizer and average
    WARM_ALL = "warm_all"  # also these weights' optimizer state, and the guards' histories
    WEIGHTS = "weights"  # all weights and their average; a fresh optimizer
    ALL = "all"  # also the optimizer state


@dataclass(frozen=True, kw_only=True)
class Start:
    """The start of a run from another run's checkpoint.

    checkpoint: directory URL. clip_history: directory URL of a checkpoint whose history of update norms the clip begins
    with. rebuild: number of batches before the first step from which to rebuild moments and histories, before the
    training.
    """

    mode: StartMode
    checkpoint: str
    clip_history: str | None = None
    rebuild: int = 0


@dataclass(frozen=True, kw_only=True)
class Source:
    """A token store. name: its name in metrics, unique in a run. store: directory URL."""

    name: str
    store: str


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Texts to continue. tokens: each text's tokens, with the token before a text, if any. most: tokens of each
    continuation. tokenizer: directory URL.
    """

    texts: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    most: int
    tokenizer: str


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The watch on the weights during training. every: optimizer steps between two looks.

    directory: URL of the folder with held_out.npz, None without held-out text. separator: the token id at which
    attention stops in this text, None for attention across documents.
    """

    every: int
    directory: str | None = None
    separator: int | None = None
    prompts: Prompts | None = None


@dataclass(frozen=True, kw_only=True)
class Process:
    """One of several processes that train together. number: from 0; process 0 leads. meeting: its address and port."""

    number: int
    count: int
    meeting: str


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """The work of one process of one run: it trains the steps first_step … end_step - 1.

    shuffle, seed, block, max_epochs, allow_starved: see marin.data.order_spec.OrderSpec.
    """

    model: ModelShape
    vocabulary: int
    optimizer: Optimizer
    schedule: Schedule
    precision: Precision
    recompute: Recompute
    sources: tuple[Source, ...]
    stages: dict[int, dict[str, float]]  # first optimizer step → share of each source, by name
    batch: dict[int, int]  # first optimizer step → sequences
    shuffle: str
    seed: int
    block: int
    seq_len: int
    separate_documents: bool  # attention stops at document boundaries
    first_step: int
    end_step: int
    state: str  # directory URL of the resumable work
    checkpoint_every: int  # steps between checkpoints
    checkpoint_minutes: float | None = None  # most minutes between checkpoints
    max_epochs: float = 4.0
    allow_starved: tuple[str, ...] = ()
    # First optimizer step → tokens of a sequence, also in the runs that this run continues; empty if always seq_len.
    lengths: dict[int, int] = field(default_factory=dict[int, int])
    # First optimizer step of a stage → steps of the gradual change to the stage.
    interpolations: dict[int, int] = field(default_factory=dict[int, int])
    start: Start | None = None
    keep_steps: tuple[int, ...] = ()  # checkpoints that stay, besides the last two
    tracked: Tracked | None = None  # the run in W&B or trackio, None for no tracking
    watch: Watched | None = None
    peak_flops: float = 0.0  # peak FLOP/s of all chips together, 0 if unknown
    code: str = ""  # digest of the code that this process runs, "" if unknown
    profile: tuple[int, int] | None = None  # first and last step of a trace for Perfetto
    process: Process | None = None  # this process among several, None for a single process
    hang_minutes: float | None = None  # see marin.training.hanging
    tensor: int = 1  # see marin.training.chips
    before: int | None = None  # the token id in front of each text of the sources, None if unknown
    # Sequences that a device, or group of ``tensor`` devices, processes at once; None for its whole share of the batch.
    sequences_per_device: int | None = None
    lora: LoRA | None = None  # the adapters to train, None to train the model's own weights
    save_start: bool = False  # whether to save the weights before the first step, so that a good checkpoint exists


def to_json(spec: TrainingSpec) -> str:
    return _adapter().dump_json(spec, indent=1).decode()


def from_json(text: str) -> TrainingSpec:
    """Return the specification. Raises pydantic.ValidationError, which names the field that does not fit."""
    return _adapter().validate_json(text)


def _adapter() -> TypeAdapter[TrainingSpec]:
    from pydantic import TypeAdapter

    return TypeAdapter(TrainingSpec)
