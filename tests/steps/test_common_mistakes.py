"""Test common mistakes in experiments: each message names the thing, the value found, and the remedy."""

# ruff: noqa: F401  # the mistakes use these names

import inspect
from pathlib import Path

import pytest

from infra.hardware import tpu
from marin import (
    Artifact,
    BatchSchedule,
    ExecutorStep,
    Experiment,
    Mixture,
    Pinned,
    Resources,
    Scale,
    Shuffle,
    Stages,
    after_use,
    blend,
    mixture,
)
from marin.data.http_file import HttpFile
from marin.errors import ExperimentError, MarinError
from marin.steps.experiment_file import built_by
from marin.text.presets import PROSE
from marin.text.quality import Quality, View
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Schedule
from operators.compare import Compare
from operators.download import FsspecFiles, HttpFiles, HuggingFace, ReadItems
from operators.evaluate import Evaluate
from operators.filter import Filter
from operators.judge import Judge
from operators.microanneal import Microanneal
from operators.pretrained_tokenizer import PretrainedTokenizer
from operators.split import Part, Split
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Fork, OptimizerState, Train, WarmStart
from operators.train_tokenizer import TrainTokenizer

text = TextFiles(path="/text")
tokenizer = TrainTokenizer(documents=(text,), vocabulary=300)
tokens = Tokenize(documents=text, tokenizer=tokenizer)
mix: Mixture = mixture({tokens: 1.0})
SIZES = {"hidden": 128, "intermediate": 384, "layers": 2, "heads": 4, "kv_heads": 2, "seq_len": 128}


def model(**other: int):
    return Llama(**{**SIZES, **other})


def train(**other: object) -> Train:
    fields: dict[str, object] = {
        "label": "run",
        "model": model(),
        "vocabulary": 300,
        "optimizer": Adam(peak_lr=1e-3),
        "schedule": Schedule(warmup=1),
        "data": Stages({0: mix}),
        "batch": BatchSchedule({0: 16}),
        "seq_len": 128,
        "shuffle": Shuffle.FEISTEL,
        "seed": 0,
        "block": 32,
        "end_step": 10,
    }
    return Train(**{**fields, **other})  # type: ignore[arg-type]


def experiment(**other: object) -> Experiment:
    return Experiment(**{"issue": 1, "question": "What?", "results": {"a": text}, **other})  # type: ignore[arg-type]


class Arrows:
    """A rule as a beginner may write it."""

    def __call__(self, view: View) -> str | None:
        return None


def annealed() -> Microanneal:
    part = Split(documents=text, part=Part.TRAIN, holdout=0.1)
    items = ReadItems(files=HttpFiles(files=(HttpFile("https://x.org/a.txt", "a" * 64),)))
    tasks = Evaluate(checkpoint=run, tokenizer=tokenizer, tasks={"gsm": items})
    return Microanneal(
        base=run.at(5),
        control=mix,
        candidates={"other": mixture({tokens: 1.0, Tokenize(documents=part, tokenizer=tokenizer): 1.0})},
        tokens=2048,
        evaluations=(tasks,),
        primary=("gsm/olmes/bpb",),
        shortest=0.0,
    )


run = train()
score = Evaluate(checkpoint=run, tokenizer=tokenizer, domains={"own": text})
COMMIT = "0" * 40

MISTAKES = {
    # names and types
    "Filter(documents=text, quality='prose')": ("Filter.quality is 'prose' (str)", "wanted Quality"),
    "Filter(documents=text, qualty=PROSE)": ("Filter has no field 'qualty'", "did you mean 'quality'?"),
    "Filter(text, PROSE)": ("fields are given by name", "Filter(documents=…, quality=…)"),
    "Filter(documents=text)": ("Filter needs quality",),
    "Filter(documents='text', quality=PROSE)": (
        "Filter.documents is 'text' (str)",
        "wanted ExecutorStep[Documents]; pass the step itself, such as ",
    ),
    "Filter(documents=TextFiles, quality=PROSE)": ("documents is the class TextFiles", "did you mean TextFiles(…)?"),
    "Filter(documents=text, quality=Quality(rules=(Arrows(),)))": (
        "Filter.quality.rules[0]: Arrows is a plain class; write @value(",
    ),
    "Filter(documents=tokens, quality=PROSE)": ("Filter.documents is <tokenize/", "it makes Tokens"),
    "TrainTokenizer(documents=text, vocabulary=300)": ("TrainTokenizer.documents is <text-files/", "(it,)"),
    "TrainTokenizer(documents=(), vocabulary=300)": ("is empty", "give at least one step that makes documents"),
    "TrainTokenizer(documents=(text,), vocabulary=100)": ("vocabulary is 100", "wanted 260 … 1,000,000"),
    "Split(documents=text, part='train', holdout=0.1)": ("Split.part is 'train' (str)", "write Part.TRAIN"),
    "train(batch=16)": ("Train.batch is 16 (int)", "write BatchSchedule({0: …})"),
    "train(end_step=40.0)": ("Train.end_step is 40.0 (float)", "write 40"),
    "train(shuffle='feistel')": ("Train.shuffle is 'feistel' (str)", "write Shuffle.FEISTEL"),
    "train(data=mix)": ("Train.data is Mixture(", "write Stages({0: …})"),
    "train(start=run.at(10))": ("Train.start is <milestone/run@10", "write WarmStart(checkpoint=…)"),
    "train(resources=4)": ("Train.resources is 4 (int)", "write Resources(…)"),
    "train(label='a\\nb')": ("holds a line break", "one line of plain text"),
    "Pinned('abc')": ("fields are given by name", "Pinned("),
    # numbers that cannot be
    "Filter(documents=text, quality=PROSE, max_removed=1.5)": ("Filter.max_removed is 1.5", "a fraction from 0 to 1"),
    "Split(documents=text, part=Part.TRAIN, holdout=10.0)": ("Split.holdout is 10.0", "between 0 and 1"),
    "Resources(cpus=-1.0)": ("Resources.cpus is -1.0", "wanted 0 or more"),
    "Resources(memory_gib=float('nan'))": ("Resources.memory_gib is nan", "wanted 0 or more"),
    "after_use(days=0)": ("0 days", "wanted more than 0"),
    "mixture({})": ("a mixture has no sources", "mixture({web: 0.9, code: 0.1})"),
    "mixture({tokens: -1.0})": ("the weight of tokenize/", "is -1.0", "wanted a positive number"),
    "blend((0.7, mix), (0.7, mix))": ("the shares sum to 1.4", "blend((0.7, a), (0.3, b))"),
    "blend((0.7, tokens), (0.3, mix))": ("is not a mixture", "write mixture({…: 1.0})"),
    "BatchSchedule({0: 0})": ("the batch from step 0 is 0", "wanted a positive integer"),
    "BatchSchedule({5: 16})": ("the first entry is for step 5", "add an entry for step 0"),
    "Stages({5: mix})": ("the first entry is for step 5", "add an entry for step 0"),
    # trainings
    "train(end_step=0)": ("Train 'run': cannot train from step 0 to 0", "end must come later"),
    "train(seq_len=4096)": ("seq_len is 4096, but the model is built for 128", "lower seq_len"),
    "train(schedule=Schedule(warmup=10))": ("but the run ends at step 10", "shorten the warmup"),
    "train(vocabulary=100)": ("vocabulary is 100, but the tokenizer of tokenize/", "may have 300 entries"),
    "train(resources=tpu('v4-64'))": ("cannot be shared by the 32 chips of v4-64", "Nearest that can: 32"),
    "Adam(lr=1e-3)": ("Adam has no field 'lr'", "did you mean 'peak_lr'?"),
    "Adam(learning_rate=1e-3)": ("Adam has no field 'learning_rate'", "it has: adamc, beta1", "peak_lr"),
    "Adam(peak_lr=float('inf'))": ("Adam.peak_lr is inf", "wanted a number above 0"),
    "Adam(peak_lr=float('nan'))": ("Adam.peak_lr is nan", "wanted a number above 0"),
    "Adam(ema=1.0)": ("Adam.ema is 1.0", "wanted between 0 and 1, or None"),
    "Adam(beta2=float('nan'))": ("Adam.beta2 is nan", "wanted 0 or more, below 1"),
    "train(first_step=5)": ("begins at step 5 without a checkpoint", "start=WarmStart(…) or start=Fork(…)"),
    "train(start=Fork(run.at(10)), first_step=5)": ("forks from step 10", "OptimizerState.FRESH"),
    "train(start=WarmStart(run.at(10)), first_step=10, end_step=20, vocabulary=301)": (
        "vocabulary is 301",
        "its start has 300",
    ),
    "train(start=Fork(run.at(10)), first_step=10, end_step=20, model=model(layers=3))": (
        "its model differs from",
        "WarmStart",
    ),
    "run.at(11)": ("Train 'run'.at(11): the run makes the steps 0 to 10", "ask for a step from 1 to 10"),
    "model(kv_heads=3)": ("4 heads cannot share 3 kv_heads", "make it a divisor"),
    "model(heads=7, kv_heads=7)": ("hidden 128 is not a multiple of 7 heads", "set head_width"),
    "Schedule(warmup=5, decay=Decay(2, 10))": ("the ramp from step 2 begins before the one that ends at 5",),
    "Schedule(warmup=5, decay=Decay(10, 8))": ("from step 10 to 8", "the end must come later"),
    "tpu('v9-8')": ("tpu('v9-8'): no such TPU slice", "did you mean 'v4-8'?"),
    # data from elsewhere
    "HuggingFace(repo='a/b', revision='main')": ("a/b: 'main' is not a commit", "Files → History"),
    "HuggingFace(repo='a/b', revision=COMMIT, patterns=())": ("patterns is empty", "wanted at least one glob"),
    "TextFiles(path='text')": ("TextFiles.path is 'text'", "with beside=__file__"),
    "FsspecFiles(urls=())": ("FsspecFiles.urls is empty", "wanted at least one"),
    "PretrainedTokenizer(repo='gpt2', revision=COMMIT)": ("repo is 'gpt2'", "wanted 'owner/name'"),
    "HttpFiles(files=(HttpFile('https://x.org/a.txt', 'abc'),))": (
        "the sha256 of https://x.org/a.txt",
        "64 hex digits",
    ),
    # evaluation and the experiment
    "Compare(arms={'a': score}, baseline='a')": ("Compare.arms holds only a", "another arm to compare with"),
    "Compare(arms={'a': score, 'b': score}, baseline='c')": ("Compare.baseline is 'c'", "wanted one of a, b"),
    "Compare(arms={'a': score, 'b': score}, baseline='a', primary=('bpb/owm',))": (
        "Compare.primary names 'bpb/owm', which no evaluation measures",
        "did you mean 'bpb/own'?",
    ),
    "Evaluate(checkpoint=run.at(5), tokenizer=tokenizer, domains={'own': text}, window=256)": (
        "window is 256 tokens, but Train 'run' trains on sequences of 128",
        "wanted at most as many",
    ),
    "Evaluate(checkpoint=run, tokenizer=tokenizer)": ("nothing to score", "give domains, tasks or references"),
    "Evaluate(checkpoint=run, tokenizer=tokenizer, domains={'own': text}, window=64, stride=128)": (
        "stride 128 and window 64",
        "wanted 1 <= stride < window",
    ),
    "experiment(issue='2')": ("Experiment.issue is '2' (str)", "write 2"),
    "Experiment(question='What?', results={'a': text})": ("Experiment needs issue (the number of the GitHub issue",),
    "experiment(issue=0)": ("Experiment.issue is 0", "belongs to a GitHub issue, by number"),
    "experiment(question=None)": ("Experiment.question is empty", "usually __doc__"),
    "experiment(results={})": ("Experiment.results is empty", "name at least one step"),
    "train(data=Stages({0: mixture({'web': 1.0})}))": ("'web' (str)", "such as Tokenize(…), not its name"),
    "experiment(results={'a': annealed()})": ("results['a'] is ", "did you mean its .verdict?"),
    "experiment(results={'a': Judge})": ("results['a'] is the class Judge", "did you mean Judge(…)?"),
    "experiment(results={'a': mix})": ("Experiment.results['a'] is Mixture(", "wanted ExecutorStep[Any]"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_where_it_is_written_with_its_remedy(mistake: str) -> None:
    with pytest.raises(MarinError) as refused:
        eval(mistake)
    for part in MISTAKES[mistake]:
        assert part in str(refused.value)


RIGHT = (
    "train(start=Fork(run.at(10), OptimizerState.FRESH), end_step=20)",
    "train(start=WarmStart(run.at(10)), first_step=10, end_step=20)",
    "Split(documents=text, part=Part.TRAIN, holdout=0.1)",
    "Filter(documents=text, quality=PROSE)",
    "Schedule(warmup=5, decay=Decay(5, 10))",
    "blend((1.0, mix))",
    "experiment()",
    "HuggingFace(repo='a/b', revision=COMMIT)",
    "PretrainedTokenizer(repo='a/b', revision=COMMIT)",
    "HttpFiles(files=(HttpFile('https://x.org/a.txt', 'a' * 64),))",
    "FsspecFiles(urls=('/a',))",
    "Compare(arms={'a': score, 'b': score}, baseline='a')",
    "tpu('v4-8')",
    "Resources()",
    "after_use(days=1)",
)


@pytest.mark.parametrize("right", RIGHT)
def test_what_the_mistakes_are_made_of_is_right(right: str) -> None:
    """Otherwise marin could refuse a mistake for another reason."""
    assert eval(right) is not None


def test_a_field_called_like_something_that_every_step_has_is_refused() -> None:
    """The field would replace the step's attribute: a field ``identity`` would become the identity."""
    for field in ("identity", "name", "version"):
        with pytest.raises(ExperimentError, match=rf"Mine\.{field}: every ExecutorStep has an attribute of that name"):
            type("Mine", (ExecutorStep,), {"__annotations__": {field: "str"}, "run": TextFiles.run}, op="mistake")
    with pytest.raises(ExperimentError, match=r"Made\.kind: every Artifact has an attribute"):
        type("Made", (Artifact,), {"__annotations__": {"kind": "str"}}, kind="mistake")


def test_help_shows_the_fields_of_operators_and_values_with_their_types_and_defaults() -> None:
    """help() shows the fields of the class, not the parameters of the function that checks the arguments."""
    assert str(inspect.signature(Filter)).startswith("(*, label: 'str' = ''")
    assert "documents: 'ExecutorStep[Documents]'" in str(inspect.signature(Filter))
    assert "peak_lr: 'float'" in str(inspect.signature(Adam))


def test_an_operator_without_run_is_refused_where_it_is_defined() -> None:
    with pytest.raises(ExperimentError, match=r"Mine has no method run, which makes its output; is runn meant\?"):
        type("Mine", (ExecutorStep,), {"runn": TextFiles.run}, op="mistake")


def test_a_build_without_its_parameter_is_told_what_to_write() -> None:
    with pytest.raises(ExperimentError, match=r"exp1\.py: build\(\) cannot be .* write def build\(scale: Scale\)"):
        built_by(lambda: experiment(), Path("exp1.py"), Scale.REHEARSAL)  # type: ignore[arg-type,misc]
