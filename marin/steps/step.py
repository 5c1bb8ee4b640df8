"""ExecutorStep: a recipe for an artifact and its inputs. Context: the argument of its run. Building does no I/O."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast, dataclass_transform

from marin.errors import BadField, CyclicSteps, ExperimentError
from marin.steps.artifact import Artifact
from marin.steps.definitions import Namespace, define, must_be_free, unprintable
from marin.steps.encoding import EXECUTION, STEP_ATTRIBUTE, digest, encode, encode_fields
from marin.steps.field_types import argument_of, resolved
from marin.steps.lifetime import FOREVER, Lifetime
from marin.steps.resources import CPU, Accelerator, Host, Resources, Size, Work
from marin.steps.value import execution, formerly, freeze_fields, guard_init, since

if TYPE_CHECKING:
    from marin.data.artifacts import Checkpoint
    from marin.store.files.directory import Directory


_MADE = "__marin_made__"  # attribute of a class: the result of __marin_makes__


@dataclasses.dataclass(frozen=True)
class Pin:
    """An output of the store, named by its place."""

    at: str  # ``op/label-identity.token``
    digest: str  # digest of its bytes
    because: str = ""  # why marin may use it although its code changed since; "" without a reason


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field, since, execution, formerly)
)
class _FrozenFields:
    """A base whose subclasses are dataclasses to the type checker, with their own base fields (PEP 681)."""


class ExecutorStep[A: Artifact](_FrozenFields):
    """A value that says how to make an artifact of type ``A``. Subclasses are operators.

    ::

        class Tokenize(ExecutorStep[Tokens], op="tokenize", version=1):
            documents: ExecutorStep[Documents]
            def run(self, ctx: Context) -> Tokens: ...

    ``op`` names the operator in identities and in the store, so classes may be renamed and moved.
    Raise ``version`` when the same fields should give a different output. Two steps with the same
    operator, version and identity-bearing fields are equal, whatever their label and resources.
    Raises UnencodableValue at construction for a field that cannot be part of an identity, and
    BadField for an unknown or missing field or a senseless value.
    """

    op: ClassVar[str] = ""
    version: ClassVar[int] = 1
    isolated: ClassVar[bool] = False  # True: run() needs a process of its own
    uses_accelerator: ClassVar[bool] = False  # True: run() uses the accelerator of its resources, if any

    label: str = execution(default="")
    resources: Resources = execution(default=CPU)
    lifetime: Lifetime = execution(default=FOREVER)
    may_be_empty: bool = execution(default=False)  # True: an output without any document is no failure

    def __init_subclass__(
        cls,
        *,
        op: str = "",
        version: int = 1,
        isolated: bool = False,
        uses_accelerator: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if not op:
            raise ExperimentError(f"{cls.__qualname__}: an operator needs a name: class {cls.__name__}(..., op='verb')")
        if version < 1:
            raise ExperimentError(f"{cls.__qualname__}: version is {version}; versions start at 1")
        if next(base for base in cls.__mro__ if "run" in vars(base)) is ExecutorStep:
            near = difflib.get_close_matches("run", vars(cls), n=1)
            raise ExperimentError(
                f"{cls.__qualname__} has no method run, which makes its output"
                f"{f'; is {near[0]} meant?' if near else ''}; write def run(self, ctx: Context) -> the artifact"
            )
        define(Namespace.OPERATOR, op, cls)
        cls.op, cls.version, cls.isolated, cls.uses_accelerator = op, version, isolated, uses_accelerator
        dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)
        must_be_free(cls, ExecutorStep)
        guard_init(cls, _finish)

    def __post_init__(self) -> None:
        """Do nothing: subclasses may call this. The checks of every step follow when all fields have their values."""

    def check(self) -> None:
        """Override to refuse senseless field values with BadField, where the mistake was written."""

    @abstractmethod
    def run(self, ctx: Context) -> A:
        """Make the artifact: write files under ``ctx.out``, return the typed description."""
        ...

    @functools.cached_property
    def identity(self) -> str:
        """Return 64 hex digits from operator, version and identity fields. Dependencies enter by their identities."""
        found: list[ExecutorStep[Any]] = []
        try:
            fields = encode_fields(self, found)
        except RecursionError as error:  # raised before the identities of the steps in its fields are known
            name = f"{self.op}/{self.label}".rstrip("/")
            raise CyclicSteps(f"steps depend on themselves: {name} → {name}") from error
        self.__dict__["dependencies"] = _each_once(found)
        return digest(b"step\0" + self.op.encode() + b"\0" + str(self.version).encode() + b"\0" + fields)

    @functools.cached_property
    def dependencies(self) -> tuple[ExecutorStep[Any], ...]:
        """Return the steps in the identity fields, at any depth, each once, in field order."""
        found: list[ExecutorStep[Any]] = []
        encode_fields(self, found)
        return _each_once(found)

    @property
    def producer(self) -> ExecutorStep[Any] | None:
        """Return the step that commits this one while it runs: for a milestone its training run, else None.

        A milestone has a field ``step``: the optimizer step at which it is committed.
        """
        return None

    @property
    def pin(self) -> Pin | None:
        """Return the output of the store that this step stands for if it is a pin (marin.steps.pinned), else None."""
        return None

    def outside(self) -> dict[str, str]:
        """Return digests of the outside data that run() reads, by name: of names, sizes and checksums, or of etags.

        If the step has a field ``beside``, relative names begin at the folder of that file. Every plan calls this
        method, so it must be cheap. A later change of a digest is drift.
        """
        return {}

    def outside_bytes(self) -> Mapping[str, int]:
        """Return the sizes of outside data that run() reads from object stores, by URL (``gs://``, ``s3://``).

        A plan calls this only if it knows the regions of the steps, to count the bytes that cross regions.
        """
        return {}

    def work(self) -> Work | None:
        """Return the amount of training in this step, from its fields alone; None for steps that do not train."""
        return None

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        """Return the expected or largest size of the output, from fields and inputs; None if they do not tell it.

        inputs: sizes, known or expected, of the dependencies that have one.
        """
        return None

    def evaluated_on(self) -> tuple[ExecutorStep[Any], ...]:
        """Return the steps whose items or texts this step scores. Training text should hold none of them."""
        return ()

    @property
    def name(self) -> str:
        """Return the name of this step for people: ``op/label``, or ``op/`` and the first digits of its identity."""
        return f"{self.op}/{self.label or self.identity[:8]}"

    @classmethod
    def __marin_makes__(cls) -> Any:
        """Return the artifact class that run() returns; Any, or no class, if neither the base nor run() names it."""
        if _MADE not in cls.__dict__:
            made = argument_of(cls, ExecutorStep)
            if not isinstance(made, type) or made in (Any, Artifact):
                owner = next(base for base in cls.__mro__ if "run" in base.__dict__)
                made = resolved(getattr(owner.__dict__["run"], "__annotations__", {}).get("return", Any), owner)
            setattr(cls, _MADE, Any if made is Artifact else made)
        return cls.__dict__[_MADE]

    def __copy__(self) -> Self:
        return self  # a step cannot change

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutorStep) and self.identity == cast(ExecutorStep[Any], other).identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<{self.name} {self.identity[:12]}>"


dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)(ExecutorStep)
setattr(ExecutorStep, STEP_ATTRIBUTE, True)


class Context(Protocol):
    """The argument of ``run()``. ``ctx[self.field]`` is an input; write all files below ``out``.

    out: this attempt's own directory, which becomes the committed output.
    milestones: optimizer steps, ascending, at which somebody waits for a checkpoint of this step.
    tracker: the tracker in which the user wants to see trainings, "wandb" or "trackio"; "" for none.
    profile: first and last optimizer step of the trace that the user wants of trainings; None for no trace.
    code: digest of the code that makes this step's output. It differs from before if other code resumes a run.
    accelerator: the accelerator that the step got, of those that its resources accept.
    """

    out: Directory
    milestones: Sequence[int]
    tracker: str
    profile: tuple[int, int] | None
    code: str
    accelerator: Accelerator | None

    @property
    def state(self) -> Directory:
        """Return a directory for work in progress (training checkpoints), kept after failures until the commit."""
        ...

    def __getitem__[A: Artifact](self, step: ExecutorStep[A]) -> A:
        """Return the committed artifact of a dependency. Raises KeyError for any other step."""
        ...

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return ``[work(item) for item in items]``, spread over the cluster if there is one.

        work must be a top-level function; items and results must pickle.
        """
        ...

    def write_shards[T, R](
        self, work: Callable[[T, Directory], R], items: Sequence[T], kind: type[R], by: Any = None
    ) -> list[R]:
        """Return ``[work(item, out) for item in items]``, spread over the cluster. Finished items survive a failure.

        work: a top-level function that writes the files of its item below the given directory. No other item may use
        the same file names. It returns a ``kind``: a class or type that JSON can represent. The files become part of
        the output when all items are done. by: makes the files instead of tasks of the cluster (operators.on_hosts).
        """
        ...

    def on_hosts[R](self, lead: Callable[[Host], R], follow: Callable[[Host], object]) -> R:
        """Run lead(host) here, and at the same time follow(host) on each other host of the step's accelerator.

        Returns the result of lead. follow must pickle. When one call fails or dies, marin stops the others and raises
        the cause here. On a single host only lead runs.
        """
        ...

    def progress(self, done: float, total: float, unit: str, note: str = "") -> None:
        """Report the progress of the step, which marin shows live. Cheap: call it as often as you like."""
        ...

    def log(self, message: str) -> None:
        """Write one line into this attempt's log."""
        ...

    def note(self, message: str) -> None:
        """Tell people something about this output: in the log, at the end of the run, in its record and on the page."""
        ...

    def publish(self, milestone: ExecutorStep[Checkpoint], artifact: Checkpoint, source: Directory) -> None:
        """Commit a milestone now, from the files below ``source``, while this step runs on."""
        ...


def must_be_one_class(step: ExecutorStep[Any], other: ExecutorStep[Any]) -> None:
    """Raise ExperimentError for two equal steps of different classes: one would run in place of the other."""
    if type(step) is not type(other):
        raise ExperimentError(
            f"{step.name} is in this experiment twice, from two classes with the same name, {type(step).__module__}."
            f"{type(step).__qualname__}. Its module was loaded again, or a function defines it at each call. "
            "Build every step after the last definition, or give the classes different ops"
        )


def _each_once(found: list[ExecutorStep[Any]]) -> tuple[ExecutorStep[Any], ...]:
    once: dict[str, ExecutorStep[Any]] = {}
    for step in found:
        if (known := once.setdefault(step.identity, step)) is not step:
            must_be_one_class(known, step)
    return tuple(once.values())


def action_key(step: ExecutorStep[Any], roots: Mapping[str, str]) -> str:
    """Return 64 hex digits from operator, version and fields, with every dependency replaced by its content.

    roots: digest of each dependency's bytes, by identity. Steps with equal action keys make equal outputs, regardless
    of the steps that made their inputs. A milestone's key uses its training run's key, so the run need not have ended.
    """

    def content(read: ExecutorStep[Any]) -> str:
        if step.producer is not None and read.identity == step.producer.identity:
            return f"action {action_key(step.producer, roots)}"
        return f"bytes {roots[read.identity]}"

    fields = encode_fields(step, [], content)
    return digest(b"action\0" + step.op.encode() + b"\0" + str(step.version).encode() + b"\0" + fields)


def identity_fields(step: ExecutorStep[Any]) -> dict[str, Any]:
    """Return the fields that enter the identity, by name."""
    return {f.name: getattr(step, f.name) for f in dataclasses.fields(step) if EXECUTION not in f.metadata}


def _finish(step: ExecutorStep[Any]) -> None:
    """Freeze and check a new step. Its __post_init__ may set fields too, and the identity must cover them."""
    freeze_fields(step)
    cls = type(step).__name__
    if strange := unprintable(step.label):
        raise BadField(f"{cls}.label is {step.label!r}, which holds {strange}; labels are one line of plain text")
    encode(step.label, f"{cls}.label", [])  # not in the identity, but in every record
    step.check()
    getattr(step, "identity")  # now, so that a value without an encoding fails where it was written
