"""From a labelled sample to the best part of everything: labels, a model, scores, a selection."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from marin import value
from marin.data.documents import Document, read_documents, shard_names
from marin.data.dropped import read_dropped
from marin.data.endpoint import Endpoint
from marin.data.scores import read_scores
from marin.errors import BadField, InputChanged, InputError, NothingLearned, OverRemoval
from marin.store.files.directory import Directory
from marin.text.classifier import HashedWords, separation
from operators.download import FsspecFiles, ReadDocuments
from operators.label import Label
from operators.quality_model import Score, Select, TrainClassifier
from operators.sample import Sample
from tests.operators.running import Given, file_bytes, given_documents, run_step
from tests.support.toy import run

WEB, GOOD, BAD, SCORES, MODEL = (Given(name_of_input=name) for name in ("web", "good", "bad", "scores", "model"))
SMALL = HashedWords(bits=12)
LESSON = ("energy", "force", "mass", "vector", "field", "theorem", "proof", "integral", "measure", "wave")
ADVERT = ("buy", "cheap", "click", "offer", "deal", "shop", "sale", "discount", "free", "shipping")


def texts(words: tuple[str, ...], count: int, seed: int) -> list[Document]:
    rng = np.random.default_rng(seed)
    return [Document(" ".join(rng.choice(words, 12)), "made", {"n": n}) for n in range(count)]


def mixed(count: int = 60) -> list[Document]:
    return [each for pair in zip(texts(LESSON, count, 1), texts(ADVERT, count, 2), strict=True) for each in pair]


def of(directory: Directory) -> list[tuple[str, float]]:
    return [each for name in shard_names(directory) for each in read_scores(directory, name)]


@value("test_quality_model/lesson_words")
class LessonWords:
    """A labeller that counts the words that are a lesson's."""

    def __call__(self, text: str) -> float:
        return sum(word in LESSON for word in text.split())


@value("test_quality_model/nothing")
class Nothing:
    def __call__(self, text: str) -> float:
        return float("nan")


@dataclass
class Judge:
    """An OpenAI-compatible server that counts the words of a lesson. busy: requests that it refuses first."""

    url: str = ""
    busy: int = 0
    answer: str = "There are {count} of them. Score: {count}"
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)


@pytest.fixture
def judge() -> Iterator[Judge]:
    held = Judge()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            held.requests.append(asked)
            held.keys.add(self.headers.get("Authorization", ""))
            if len(held.requests) <= held.busy:
                self.send_response(429)
                self.send_header("Retry-After", "0")
                self.end_headers()
                return
            words = asked["messages"][0]["content"].split()
            count = min(5, sum(word in LESSON for word in words))
            said = {"choices": [{"message": {"role": "assistant", "content": held.answer.format(count=count)}}]}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    held.url = f"http://127.0.0.1:{server.server_port}/v1"
    yield held
    server.shutdown()
    server.server_close()


def test_a_sample_is_a_part_in_order_and_a_larger_one_holds_it(tmp_path: Path) -> None:
    web = given_documents(mixed(), tmp_path / "web", shards=3)
    everything = [document.id for document in read_documents(web.directory)]
    chosen: dict[int, list[str]] = {}
    for count in (10, 40, 1000):
        made = run_step(Sample(documents=WEB, count=count), {WEB: web}, tmp_path)
        chosen[count] = [document.id for document in read_documents(made.directory)]
        assert made.documents == len(chosen[count]) == min(count, 120)
    assert set(chosen[10]) < set(chosen[40])
    assert chosen[40] == [each for each in everything if each in set(chosen[40])]
    assert chosen[1000] == everything
    other = run_step(Sample(documents=WEB, count=10, seed=1), {WEB: web}, tmp_path)
    assert {document.id for document in read_documents(other.directory)} != set(chosen[10])


def test_the_whole_way_from_labels_to_the_best_part(tmp_path: Path) -> None:
    """A function labels a sample; a model learns from its best and worst documents, and finds the other good ones."""
    web = given_documents(mixed(), tmp_path / "web", shards=3)
    sample = run_step(Sample(documents=WEB, count=80), {WEB: web}, tmp_path / "sample")
    labels = run_step(Label(documents=WEB, labeller=LessonWords()), {WEB: sample}, tmp_path)
    assert (labels.documents, labels.least, labels.most) == (80, 0, 12)
    given = {WEB: sample, SCORES: labels}
    good = run_step(Select(documents=WEB, scores=SCORES, least=6), given, tmp_path)
    bad = run_step(Select(documents=WEB, scores=SCORES, below=6), given, tmp_path)
    assert good.documents + bad.documents == 80
    assert good.dropped == {"low_score": bad.documents}
    model = run_step(
        TrainClassifier(good=(GOOD,), bad=(BAD,), recipe=SMALL, held_out=0.4), {GOOD: good, BAD: bad}, tmp_path
    )
    assert model.separation == 1.0
    assert model.good + model.bad < 80, "what is held out is not trained on"
    scores = run_step(Score(documents=WEB, classifier=MODEL), {WEB: web, MODEL: model}, tmp_path / "all")
    assert [key for key, _ in of(scores.directory)] == [document.id for document in read_documents(web.directory)]
    best = run_step(Select(documents=WEB, scores=SCORES, fraction=0.5), {WEB: web, SCORES: scores}, tmp_path)
    kept = list(read_documents(best.directory))
    assert len(kept) == 60
    assert {word for document in kept for word in document.text.split()} <= set(LESSON)
    gone = list(read_dropped(best.directory))
    assert len(gone) == best.dropped["low_score"] == 60
    assert max(drop.detail["score"] for drop in gone) < min(score for _, score in of(scores.directory) if score > 0)
    assert [document.metadata["n"] for document in kept] == sorted(document.metadata["n"] for document in kept)


def test_equal_examples_make_equal_bytes(tmp_path: Path) -> None:
    given = {
        GOOD: given_documents(texts(LESSON, 50, 1), tmp_path / "good"),
        BAD: given_documents(texts(ADVERT, 50, 2), tmp_path / "bad"),
    }
    step = TrainClassifier(good=(GOOD,), bad=(BAD,), recipe=SMALL, held_out=0.4)
    made = [file_bytes(run_step(step, given, tmp_path / name).directory) for name in ("one", "two")]
    assert made[0] == made[1]
    other = TrainClassifier(good=(GOOD,), bad=(BAD,), recipe=HashedWords(bits=12, epochs=2), held_out=0.4)
    assert file_bytes(run_step(other, given, tmp_path).directory) != made[0]


def test_a_model_that_tells_nothing_is_refused(tmp_path: Path) -> None:
    given = {
        GOOD: given_documents(texts(LESSON, 200, 1), tmp_path / "good"),
        BAD: given_documents(texts(LESSON, 200, 2), tmp_path / "bad"),
    }
    step = TrainClassifier(good=(GOOD,), bad=(BAD,), recipe=SMALL, held_out=0.5, least_separation=0.8)
    with pytest.raises(NothingLearned, match=r"scores above a bad one in \d\d\.\d% of held-out pairs, and chance"):
        run_step(step, given, tmp_path)
    with pytest.raises(InputError, match="wanted at least 10 of each"):
        run_step(TrainClassifier(good=(GOOD,), bad=(BAD,), recipe=SMALL, held_out=0.01), given, tmp_path)


def test_separation_is_the_share_of_pairs() -> None:
    good, bad = [0.9, 0.5, 0.5], [0.5, 0.1]
    pairs = [(a > b) + (a == b) / 2 for a in good for b in bad]
    assert separation(good, bad) == pytest.approx(sum(pairs) / len(pairs))


def test_of_equal_scores_at_the_limit_all_are_kept(tmp_path: Path) -> None:
    web = given_documents(mixed(), tmp_path / "web", shards=2)
    labels = run_step(Label(documents=WEB, labeller=LessonWords()), {WEB: web}, tmp_path)
    best = run_step(Select(documents=WEB, scores=SCORES, fraction=0.1), {WEB: web, SCORES: labels}, tmp_path)
    assert best.documents == 60, "every lesson has twelve of them"


def test_scores_of_other_documents_are_refused(tmp_path: Path) -> None:
    web = given_documents(mixed(), tmp_path / "web")
    labels = run_step(Label(documents=WEB, labeller=LessonWords()), {WEB: web}, tmp_path)
    step = Select(documents=WEB, scores=SCORES, least=1)
    for name, others in (("order", mixed()[::-1]), ("fewer", mixed()[:-1]), ("more", [*mixed(), Document("more")])):
        other = given_documents(others, tmp_path / name)
        with pytest.raises(InputChanged, match="score"):
            run_step(step, {WEB: other, SCORES: labels}, tmp_path / name)


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    web = given_documents(mixed(), tmp_path / "web")
    labels = run_step(Label(documents=WEB, labeller=LessonWords()), {WEB: web}, tmp_path)
    with pytest.raises(OverRemoval, match="removed 120 of 120"):
        run_step(Select(documents=WEB, scores=SCORES, least=100), {WEB: web, SCORES: labels}, tmp_path)


def test_a_server_judges_and_a_busy_one_is_asked_again(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret-of-the-judge")
    judge.busy = 2
    web = given_documents(mixed(10), tmp_path / "web", shards=2)
    asks = Endpoint(url=judge.url, model="judge-1", prompt="How many? {text}", most_characters=40, key="JUDGE_KEY")
    labels = run_step(Label(documents=WEB, labeller=asks), {WEB: web}, tmp_path)
    wanted = [min(5, sum(word in LESSON for word in f"How many? {document.text[:40]}".split()))
              for document in read_documents(web.directory)]  # fmt: skip
    assert [score for _, score in of(labels.directory)] == wanted
    assert len(judge.requests) == 22
    assert {(each["model"], each["temperature"]) for each in judge.requests} == {("judge-1", 0)}
    assert judge.keys == {"Bearer secret-of-the-judge"}
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"secret-of-the-judge" not in written


def test_a_shard_that_was_labelled_is_not_labelled_again(judge: Judge, prefix: str, tmp_path: Path) -> None:
    """The judge gives no score for the last document; the next run asks again about the second shard only."""
    lessons = [document.text for document in mixed(10) if document.text.split()[0] in LESSON]
    for name, texts in (("a", lessons), ("b", [*lessons, "the last one"])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    files = FsspecFiles(urls=(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")))
    asks = Endpoint(url=judge.url, model="judge-1", prompt="{text}", least=1)
    step = Label(documents=ReadDocuments(files=files), labeller=asks, at_once=1)
    assert "answered 'There are 0 of them" in str(run(prefix, end=step).results[step].error)
    assert len(judge.requests) == 2 * len(lessons) + 1
    judge.answer = "5"
    assert run(prefix, end=step).results[step].record is not None
    assert len(judge.requests) == 2 * len(lessons) + 1 + len(lessons) + 1, "only the second shard"


@pytest.mark.parametrize(("answer", "said"), [("no idea", "'no idea'"), ("11 of 10", "'11 of 10'")])
def test_an_answer_without_the_number_is_shown(judge: Judge, answer: str, said: str) -> None:
    judge.answer = answer
    with pytest.raises(InputError, match=re.escape(said) + ".*wanted a number from 0 to 5 at its end"):
        Endpoint(url=judge.url, model="judge-1", prompt="{text}")("a text")


def test_a_label_that_is_no_number_is_refused(tmp_path: Path) -> None:
    web = given_documents(mixed(2), tmp_path / "web")
    with pytest.raises(InputError, match="Nothing returned nan for a text; wanted a finite number"):
        run_step(Label(documents=WEB, labeller=Nothing()), {WEB: web}, tmp_path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Sample(documents=WEB, count=0), "Sample.count is 0"),
        (lambda: Select(documents=WEB, scores=SCORES), "either fraction, or least and below"),
        (lambda: Select(documents=WEB, scores=SCORES, fraction=0.5, least=1), "either fraction, or least and below"),
        (lambda: Select(documents=WEB, scores=SCORES, fraction=1.5), "Select.fraction is 1.5"),
        (lambda: Select(documents=WEB, scores=SCORES, least=2, below=1), "wanted least < below"),
        (lambda: TrainClassifier(good=(), bad=(BAD,)), "documents on both sides"),
        (lambda: TrainClassifier(good=(GOOD,), bad=(BAD,), held_out=0), "held_out is 0"),
        (lambda: TrainClassifier(good=(GOOD,), bad=(BAD,), least_separation=0.4), "wanted 0.5 .chance. to 1"),
        (lambda: Label(documents=WEB, labeller=LessonWords(), at_once=0), "Label.at_once is 0"),
        (lambda: HashedWords(words=0), "wanted 1 to 5 words"),
        (lambda: Endpoint(url="http://x/v1", model="m", prompt="no place"), "put {text} where"),
        (lambda: Endpoint(url="x/v1", model="m", prompt="{text}"), "wanted http://"),
        (lambda: Endpoint(url="http://x", model="m", prompt="{text}", least=5), "wanted least < most"),
    ],
)
def test_bad_fields_are_named_when_they_are_given(make: Any, said: str) -> None:
    with pytest.raises(BadField, match=said):
        make()
