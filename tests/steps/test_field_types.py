"""marin checks every field against its annotation, in depth, and refuses a wrong step where it is written."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NewType

import pytest

from marin import Artifact, Context, Documents, ExecutorStep, Tokens, execution, since, value
from marin.data.mixture import BatchSchedule, Mixture, Shuffle, Stages, mixture
from marin.errors import BadField
from marin.plan.plan import Action
from marin.steps.experiment import Experiment
from marin.steps.pinned import Pinned
from marin.steps.scale import Scale
from marin.store.store import Store
from operators.datasets import catalogue
from operators.filter import Filter
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer
from tests.support.aging import rewrite_record
from tests.support.project import EXPERIMENT, Project
from tests.support.toy import Blob, Color, Count, Write, artifact_of, planned, ran, run

if TYPE_CHECKING:
    from decimal import Decimal


@value("types-rules")
class Rules(enum.Enum):
    PROSE = "prose_rules"
    WEB_PAGES = "web"


@value("types-part")
class Part[S]:
    sources: tuple[S, ...]
    weight: float = 1.0


type Nested = int | tuple[Nested, ...]
Steps = NewType("Steps", int)


class Pair(NamedTuple):
    a: int
    b: str


@dataclasses.dataclass(frozen=True)
class Link(str):
    """A str subclass as libraries define them. marin must not ask for a Link where a field wants a str."""

    address: str


class Typed(ExecutorStep[Blob], op="types-typed"):
    number: int = 0
    rate: float = 1.0
    text: str = ""
    flag: bool = False
    rules: Rules = Rules.PROSE
    color: Color | None = None
    at: Mapping[int, Color] | None = None
    pair: tuple[int, str] = (0, "")
    many: tuple[tuple[int, ...], ...] = ()
    names: frozenset[str] = frozenset()
    either: int | str | None = None
    mode: Literal["a", "b", 3] = "a"
    part: Part[ExecutorStep[Tokens]] | None = None
    nested: Nested = 0
    steps: Steps = since(2, default=0)
    later: Decimal | None = None
    anything: Any = None
    blob: ExecutorStep[Blob] | None = None
    count: Count | None = None
    several: Sequence[ExecutorStep[Documents | Blob]] = ()
    folder: Path = execution(default=Path("/tmp"))

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", repr(self.rate))
        return Blob(bytes=1)


WRITE = Write(text="a", label="write")
DOCUMENTS = catalogue.corpus("starcoderdata").raw(Scale.REHEARSAL)
TOKENS = Tokenize(documents=DOCUMENTS, tokenizer=TrainTokenizer(documents=(DOCUMENTS,), vocabulary=300))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"number": 40.0}, r"Typed\.number is 40\.0 \(float\); wanted int; write 40$"),
        ({"number": True}, r"Typed\.number is True \(bool\); wanted int; write 1"),
        ({"number": "2"}, r"Typed\.number is '2' \(str\); wanted int; write 2"),
        ({"number": 1.5}, r"Typed\.number is 1\.5 \(float\); wanted int$"),
        ({"number": None}, r"Typed\.number is None; wanted int"),
        ({"rate": "1e-3"}, r"Typed\.rate is '1e-3' \(str\); wanted float; write 0\.001"),
        ({"rate": True}, r"Typed\.rate is True \(bool\); wanted float; write 1\.0"),
        ({"text": 1}, r"Typed\.text is 1 \(int\); wanted str"),
        ({"flag": 1}, r"Typed\.flag is 1 \(int\); wanted bool"),
        ({"rules": "prose"}, r"Typed\.rules is 'prose' \(str\); wanted Rules; did you mean Rules\.PROSE\?"),
        ({"rules": "web"}, r"Typed\.rules is 'web' \(str\); wanted Rules; write Rules\.WEB_PAGES"),
        ({"rules": 7}, r"wanted Rules; one of Rules\.PROSE, Rules\.WEB_PAGES"),
        ({"rules": Rules}, r"Typed\.rules is the class Rules; wanted Rules"),
        ({"color": 16}, r"Typed\.color is 16 \(int\); wanted Color \| None; write Color\(red=…, names=…\)"),
        ({"at": {0: 16}}, r"Typed\.at\[0\] is 16 \(int\); wanted Color; write Color"),
        ({"at": {"0": Color(1, {})}}, r"Typed\.at key '0' is '0' \(str\); wanted int; write 0"),
        ({"at": ((0, 1),)}, r"Typed\.at is .*wanted Mapping\[int, Color\] \| None"),
        ({"pair": (0, 1)}, r"Typed\.pair\[1\] is 1 \(int\); wanted str"),
        ({"pair": (0,)}, r"Typed\.pair is .*wanted tuple\[int, str\]: 2 values, not 1"),
        ({"many": ((1,), (1, "x"))}, r"Typed\.many\[1\]\[1\] is 'x' \(str\); wanted int"),
        ({"many": (1,)}, r"Typed\.many\[0\] is 1 \(int\); wanted tuple\[int, …\]; write a tuple, even of one"),
        ({"names": {1}}, r"Typed\.names\{…\} is 1 \(int\); wanted str"),
        ({"names": "ab"}, r"Typed\.names is 'ab' \(str\); wanted frozenset\[str\]"),
        ({"either": 1.5}, r"Typed\.either is 1\.5 \(float\); wanted int \| str \| None"),
        ({"mode": "c"}, r"Typed\.mode is 'c' \(str\); wanted one of 'a', 'b', 3"),
        ({"nested": (1, (2, "x"))}, r"Typed\.nested\[1\]\[1\] is 'x' \(str\); wanted int \| tuple"),
        ({"blob": "write"}, r"Typed\.blob is 'write' \(str\); wanted ExecutorStep\[Blob\] \| None"),
        ({"blob": DOCUMENTS}, r"wanted ExecutorStep\[Blob\] \| None; it makes Documents"),
        ({"part": Part((WRITE,))}, r"Typed\.part\.sources\[0\] is <toy-write/write .*Tokens\]; it makes Blob"),
        ({"part": Part(("web",))}, r"Typed\.part\.sources\[0\] is 'web' \(str\); wanted ExecutorStep\[Tokens\]"),
        ({"count": WRITE}, r"Typed\.count is <toy-write/write [0-9a-f]+> \(Write\); wanted Count"),
        ({"several": (WRITE, 1)}, r"Typed\.several\[1\] is 1 \(int\)"),
        ({"several": WRITE}, r"Typed\.several is <.*write a tuple, even of one"),
        ({"folder": "/tmp"}, r"Typed\.folder is '/tmp' \(str\); wanted Path"),
        ({"label": 3}, r"Typed\.label is 3 \(int\); wanted str"),
        ({"resources": 4}, r"Typed\.resources is 4 \(int\); wanted Resources; write Resources\(…\)"),
    ],
    ids=str,
)
def test_another_type_is_refused_with_field_value_type_and_remedy(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(BadField, match=says):
        Typed(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"number": -3, "rate": 2, "text": "x", "flag": True, "rules": Rules.WEB_PAGES},
        {"color": Color(1, {"a": 1}), "at": {0: Color(1, {})}},
        {"pair": (1, "x"), "many": ((1, 2), ()), "names": {"a"}, "either": "x", "mode": 3},
        {"nested": (1, (2, (3,))), "steps": 3, "later": 3, "anything": (1, "x")},
        {"blob": WRITE, "count": Count(end=1), "several": (WRITE, DOCUMENTS)},
        {"blob": Pinned(at="toy-write/a-0.1", digest="0" * 64), "count": Pinned(at="x/a-0.1", digest="0" * 64)},
        {"part": Part((TOKENS,))},
        {"folder": Path("/"), "label": "x", "part": None},
    ],
    ids=lambda fields: ", ".join(fields),
)  # fmt: skip
def test_what_fits_passes(fields: dict[str, Any]) -> None:
    assert len(Typed(**fields).identity) == 64


def test_the_issues_own_examples() -> None:
    train = Filter(documents=DOCUMENTS, quality=catalogue_rules(), label="train")
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: Filter(documents=DOCUMENTS, quality="prose"), r"Filter\.quality is 'prose' .*wanted Quality"),  # pyright: ignore[reportArgumentType]
        (lambda: TrainTokenizer(documents=train, vocabulary=9), r"TrainTokenizer\.documents is <filter/train .*tuple"),  # pyright: ignore[reportArgumentType]
        (lambda: experiment_of(issue="2"), r"Experiment\.issue is '2' \(str\); wanted int; write 2"),
        (lambda: experiment_of(issue=True), r"Experiment\.issue is True \(bool\)"),
        (lambda: experiment_of(question=None), r"Experiment\.question is empty; state the question"),
        (lambda: experiment_of(results={"a": "b"}), r"Experiment\.results\['a'\] is 'b' \(str\); wanted ExecutorStep"),
        (lambda: experiment_of(results={1: WRITE}), r"Experiment\.results key 1 is 1 \(int\); wanted str"),
        (lambda: experiment_of(results=(WRITE,)), r"Experiment\.results is .*wanted Mapping"),
        (lambda: BatchSchedule(16), r"BatchSchedule\.at is 16 \(int\); wanted Mapping\[int, int\]"),  # pyright: ignore[reportArgumentType]
        (lambda: BatchSchedule({0: 16.0}), r"BatchSchedule\.at\[0\] is 16\.0 \(float\); wanted int; write 16"),  # pyright: ignore[reportArgumentType]
        (lambda: Stages({0: {"web": 1.0}}), r"Stages\.at\[0\] is .*wanted Mixture"),  # pyright: ignore[reportArgumentType]
        (lambda: Mixture({"web": "1"}), r"Mixture\.weights\['web'\] is '1' \(str\); wanted float; write 1\.0"),  # pyright: ignore[reportArgumentType]
    ]
    for build, says in cases:
        with pytest.raises(BadField, match=says):
            build()


def catalogue_rules() -> Any:
    from marin.text.presets import PROSE

    return PROSE


def experiment_of(**fields: Any) -> Experiment:
    return Experiment(**{"issue": 1, "question": "Does it?", "results": {"a": WRITE}, **fields})


def train_with(**fields: Any) -> Any:
    from experiments.exp1529_mantis import build
    from operators.train import Train

    train = next(step for step in build(Scale.REHEARSAL).steps() if isinstance(step, Train))
    return dataclasses.replace(train, **fields)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"batch": 16}, r"Train\.batch is 16 \(int\); wanted BatchSchedule; write BatchSchedule\(\{0: …\}\)"),
        ({"end_step": 40.0}, r"Train\.end_step is 40\.0 \(float\); wanted int; write 40"),
        ({"shuffle": "feistel"}, r"Train\.shuffle is 'feistel' \(str\); wanted Shuffle; write Shuffle\.FEISTEL"),
        ({"data": Stages({0: mixture({"web": 1})})}, r"Train\.data\.at\[0\]\.weights key 'web' is 'web' \(str\)"),
        ({"start": WRITE}, r"Train\.start is <toy-write/write .*wanted WarmStart \| Fork \| None"),
        ({"allow_starved": "web"}, r"Train\.allow_starved is 'web' .*tuple\[str, …\]; write a tuple, even of one"),
    ],
)
def test_a_training_run_is_checked_in_depth(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(BadField, match=says):
        train_with(**fields)
    assert train_with(shuffle=Shuffle.FEISTEL, max_epochs=4).identity


def test_an_int_in_a_float_field_is_an_int_and_keeps_its_identity(tmp_path: Path) -> None:
    """1 and 1.0 were two identities before marin checked types. Converting an int would lose its old outputs."""
    whole, real = Typed(rate=2), Typed(rate=2.0)
    assert whole.identity != real.identity
    assert type(whole.rate) is int
    assert ran(run(str(tmp_path), a=whole, b=real)) == {whole.name, real.name}


class Facts(Artifact, kind="types-facts"):
    count: int
    shares: dict[str, float]
    lines: list[str] | None = None


class Make(ExecutorStep[Facts], op="types-make"):
    count: Any

    def run(self, ctx: Context) -> Facts:
        ctx.out.write_text("text.txt", "x")
        return Facts(count=self.count, shares={"a": 1})


def test_facts_of_an_artifact_are_checked_when_it_is_made(tmp_path: Path) -> None:
    for facts, says in (
        ({"count": "5", "shares": {}}, r"Facts\.count is '5' \(str\); wanted int; write 5"),
        ({"count": 5, "shares": {"a": "b"}}, r"Facts\.shares\['a'\] is 'b' \(str\); wanted float"),
        ({"count": 5, "shares": {}, "lines": ["a", 1]}, r"Facts\.lines\[1\] is 1 \(int\); wanted str"),
    ):
        with pytest.raises(BadField, match=says):
            Facts(**facts)  # pyright: ignore[reportArgumentType]
    failed = run(str(tmp_path), end=Make(count="5", label="x"))
    [result] = failed.results.values()
    assert result.status == "failed"
    assert "Facts.count is '5' (str); wanted int" in result.error


def test_a_record_written_before_facts_were_checked_is_still_read(tmp_path: Path) -> None:
    step = Make(count=5, label="x")
    run(str(tmp_path), end=step)
    rewrite_record(Store(str(tmp_path)), step.identity, facts={"count": "5", "shares": {"a": None}})
    read = Store(str(tmp_path)).record(step.identity)
    assert read is not None
    assert artifact_of(Store(str(tmp_path)), read).facts()["count"] == "5"
    assert planned(str(tmp_path), end=step).of(step).action is Action.CACHED


def test_a_class_that_was_loaded_again_still_fits() -> None:
    def colour() -> Any:
        return value("types-hue")(enum.Enum("Hue", {"RED": 1}))

    first, second = colour(), colour()
    space = {"__annotations__": {"hue": first}, "run": Typed.run}
    step = type("Hued", (ExecutorStep,), space, op="types-hued")
    assert step(hue=second.RED).identity == step(hue=first.RED).identity


def test_it_is_said_without_a_traceback(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT.replace('Say(text="hello"', "Say(text=5"))
    said = project.run("--dry-run", expect=4)
    assert "Say.text is 5 (int); wanted str" in said
    assert 'say = Say(text=5, label="say")' in said
    assert "Traceback" not in said
