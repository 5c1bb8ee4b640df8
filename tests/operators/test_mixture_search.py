"""Test MixtureSearch: its steps, the fields that it refuses, and its report on scores with a known truth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from marin import BatchSchedule, Mix, Stages, mixture
from marin.data.artifacts import Scores
from marin.data.searched import MIXTURES
from marin.errors import BadField
from marin.report.section import Page
from marin.store.files.directory import Directory
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.evaluate import Evaluate
from operators.mixture_search import FindMixture, MixtureProxy, MixtureSearch
from operators.pages.mixture_search import section
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer
from tests.operators.running import Given, run_step

TEXTS = {name: TextFiles(path=f"/data/{name}", label=name) for name in ("web", "code", "math")}
TOKENIZER = TrainTokenizer(documents=tuple(TEXTS.values()), vocabulary=512, label="own")
WEB, CODE, MATH = (Tokenize(documents=text, tokenizer=TOKENIZER, label=name) for name, text in TEXTS.items())


def proxy(mix: Mix[Any], seed: int) -> Train:
    return Train(
        model=Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=32),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2),
        data=Stages({0: mix}),
        batch=BatchSchedule({0: 16}),
        seq_len=32,
        seed=seed,
        block=16,
        end_step=64,
    )


def score(run: Train) -> Evaluate:
    return Evaluate(label=run.label, checkpoint=run, tokenizer=TOKENIZER, domains=TEXTS, window=32, stride=24)


SEARCH = MixtureSearch(
    sources={WEB: 6e6, CODE: 3e6, MATH: 1e6},
    recipe=proxy,
    score=score,
    objective={"bpb/code": 1, "bpb/math": 2},
    target_tokens=10e6,
    proxies=12,
)


def test_every_proxy_is_a_training_that_differs_in_its_mixture_alone() -> None:
    trainings = SEARCH.trainings
    assert len(set(trainings)) == 12
    assert trainings[0].data.known()[0].by_name() == pytest.approx({"web": 0.6, "code": 0.3, "math": 0.1})
    assert {replace(run, data=trainings[0].data, label="").identity for run in trainings} == {
        replace(trainings[0], label="").identity
    }
    assert max(run.data.known()[0].by_name().get("math", 0) for run in trainings) <= 0.4  # four epochs of a million
    more = replace(SEARCH, proxies=16)
    assert [run.identity for run in more.trainings[:12]] == [run.identity for run in trainings]


def test_the_validation_has_new_seeds_and_the_report_as_an_input() -> None:
    arms = SEARCH.verdict.arms
    runs: Any = {name: [scores.checkpoint for scores in of_arm] for name, of_arm in arms.items()}  # pyright: ignore
    assert list(runs) == ["natural", "optimum", "best proxy"]
    assert all([run.seed for run in of_arm] == [1, 2, 3] for of_arm in runs.values())
    assert SEARCH.report in runs["optimum"][0].dependencies
    assert SEARCH.report in runs["best proxy"][0].dependencies
    assert SEARCH.report not in runs["natural"][0].dependencies
    larger = replace(SEARCH, validation=lambda mix, seed: replace(proxy(mix, seed), end_step=128))
    assert larger.report == SEARCH.report
    assert larger.verdict != SEARCH.verdict


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"proxies": 4}, r"4 proxies for 3 sources; wanted at least 5, better 12"),
        ({"sources": {WEB: 1e6}}, "1 sources; wanted at least two"),
        ({"objective": {}}, "there is no objective"),
        ({"objective": {"bpb/": 1}}, "name each metric"),
        ({"objective": {"bpb/cod": 1}}, "did you mean 'bpb/code'"),
        ({"objective": {"bpb/code": -1}}, "the weight of bpb/code is -1"),
        ({"target_tokens": 1e9}, "4 epochs of them do not make"),
        ({"natural": {WEB: 1, CODE: 1}}, "natural and sources differ in math"),
        (
            {"natural": {WEB: 0.2, CODE: 0.2, MATH: 0.6}},
            "natural share of math is 0.6; 4 epochs of its tokens allow 0.4",
        ),
        ({"natural": {WEB: 0.7, CODE: 0.2995, MATH: 0.0005}}, "natural share of math is 0.0005; below 0.002"),
        ({"sources": {WEB: 6e6, CODE: 3e6, MATH: 2.1e4}, "target_tokens": 9e6}, "no proxy varies math"),
        ({"recipe": lambda mix, _: proxy(mix, 0)}, "must use the seed"),
        ({"recipe": lambda _, seed: proxy(mixture({WEB: 1}), seed)}, "must use the mixture"),
        (
            {"recipe": lambda mix, seed: replace(proxy(mix, seed), end_step=64 + len(mix.sources))},
            "differ in end_step",
        ),
    ],
)
def test_bad_input_is_refused_when_written(changed: Mapping[str, Any], says: str) -> None:
    with pytest.raises(BadField, match=says):
        replace(SEARCH, **changed)


def found(tmp_path: Path, signal: float, search: MixtureSearch = SEARCH) -> tuple[FindMixture, Directory]:
    """The report of proxies on which code lowers bits per byte of code, and mathematics of mathematics."""
    inputs: dict[Any, Any] = {}
    proxies: list[MixtureProxy] = []
    for number, shares in enumerate(search.shares):
        given = Given(name_of_input=str(number))
        luck = 0.01 * math.sin(37 * number)
        metrics = {
            f"bpb/{name}": 2 + luck * turn + signal * math.exp(-3 * shares[name])
            for name, turn in (("code", 1), ("math", -1))
        }
        inputs[given] = Scores(metrics=metrics).at(Directory(str(tmp_path)))
        proxies.append(MixtureProxy(shares=shares, scores=given))
    step = replace(search.report, proxies=tuple(proxies), refits=20)
    return step, run_step(step, inputs, tmp_path).directory


def test_the_report_holds_the_mixtures_that_trainings_read(tmp_path: Path) -> None:
    step, output = found(tmp_path, 1.0)
    made, mixtures = (json.loads(output.read_text(name)) for name in ("report.json", MIXTURES))
    assert made["verdict"] == "FOUND"
    assert mixtures["natural"] == pytest.approx({"web": 0.6, "code": 0.3, "math": 0.1})
    assert mixtures["optimum"]["web"] < 0.6
    assert mixtures["optimum"]["math"] > 0.1
    assert mixtures["best proxy"] in SEARCH.shares
    read = SEARCH.mixture.looked_up(lambda _, chosen: mixtures[chosen])
    assert read.by_name() == pytest.approx({name: share for name, share in mixtures["optimum"].items() if share})

    shown = section(step, output, Page(arms=(), store=""))
    assert shown.answer == made["answer"]
    assert shown.picture is not None
    assert len(shown.picture.rows) == 3
    assert made["paste"] in str(shown.blocks[-1])


def test_noise_keeps_the_natural_mixture(tmp_path: Path) -> None:
    """To the last digit, so that the validation trains the same mixture under both names."""
    search = replace(SEARCH, natural={WEB: 4, CODE: 2, MATH: 1})
    step, output = found(tmp_path, 0.0, search)
    mixtures = json.loads(output.read_text(MIXTURES))
    optimum = search.mixture.looked_up(lambda _, chosen: mixtures[chosen])
    runs: Any = [scores.checkpoint for scores in search.verdict.arms["natural"]]  # pyright: ignore
    assert runs[0].data == Stages({0: optimum})
    shown = section(step, output, Page(arms=(), store=""))
    assert shown.answer.startswith("INCONCLUSIVE")
    assert shown.next == ["Train each proxy longer, or score on more text: noise hides the effect of the shares."]
