"""The tokenizer of a published model, from a hub that is busy, or that does not have it."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from marin.data import retrying
from marin.data.tokenizer import load_tokenizer, train_bpe
from marin.errors import GarbledDocument, InputError, MissingRevision
from marin.store.files.directory import Directory
from operators.pretrained_tokenizer import PretrainedTokenizer
from tests.operators.running import run_step
from tests.operators.servers import HubServer, serving

COMMIT = "0123456789" * 4
PATH = f"/lab/model/resolve/{COMMIT}/tokenizer.json"
STEP = PretrainedTokenizer(repo="lab/model", revision=COMMIT)
BUSY = (503, {})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_bpe(Directory(str(folder)), ["some text to train on, and some more text"] * 9, 300)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@contextmanager
def hub(
    monkeypatch: pytest.MonkeyPatch, folder: Path, files: dict[str, bytes], **served: Any
) -> Iterator[list[tuple[str, str]]]:
    """Serve a hub and return the log of its requests. The client's own cache is empty."""
    monkeypatch.setattr(retrying, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
    log: list[tuple[str, str]] = []
    given = dict.fromkeys(("large", "lies", "gated"), frozenset[str]()) | {"breaks": {}, "troubles": {}, "log": log}
    with serving(HubServer, repo="lab/model", revision=COMMIT, files=files, **given | served) as base:
        set_endpoint(monkeypatch, base)
        yield log


def set_endpoint(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """The client reads HF_ENDPOINT when it is imported."""
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{base}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    )


def test_a_busy_hub_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes]) -> None:
    troubles = {PATH: [BUSY, (429, {"Retry-After": "0"}), BUSY]}
    breaks = {"tokenizer.json": (1, 1000)}
    with hub(monkeypatch, tmp_path, files, troubles=troubles, breaks=breaks) as log:
        made = run_step(STEP, {}, tmp_path)
    assert {name: made.directory.read_bytes(name) for name in made.directory.names()} == files
    assert [asked for path, asked in log if path == PATH] == ["", "", "", "", "bytes=1000-"]


def test_documents_end_with_another_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes]
) -> None:
    with hub(monkeypatch, tmp_path, files):
        made = run_step(dataclasses.replace(STEP, eos="<|pad|>"), {}, tmp_path)
        assert load_tokenizer(made.directory).eos == 2
        with pytest.raises(GarbledDocument, match="eos_token is '<end>', wanted an entry of the vocabulary"):
            run_step(dataclasses.replace(STEP, eos="<end>"), {}, tmp_path / "other")


def test_one_that_stays_busy_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes]
) -> None:
    with (
        hub(monkeypatch, tmp_path, files, troubles={PATH: [BUSY] * 99}),
        pytest.raises(
            InputError, match=rf"{PATH}: the server answered 503 .*, tried 8 times .*the server has a problem"
        ),
    ):
        run_step(STEP, {}, tmp_path)


def test_what_does_not_pass_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes]
) -> None:
    wrong = PretrainedTokenizer(repo="lab/model", revision="f" * 40)
    with hub(monkeypatch, tmp_path, files) as log:
        with pytest.raises(MissingRevision, match=r"lab/model has no revision f{40}"):
            run_step(wrong, {}, tmp_path)
        with pytest.raises(MissingRevision, match="lab/other does not exist on the hub, or this account cannot see it"):
            run_step(PretrainedTokenizer(repo="lab/other", revision=COMMIT), {}, tmp_path)
        assert len(log) == 2
    with (
        hub(monkeypatch, tmp_path, files, gated=frozenset({"files"})),
        pytest.raises(InputError, match="lab/model is gated: accept its terms"),
    ):
        run_step(STEP, {}, tmp_path)


def test_a_server_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes]
) -> None:
    with hub(monkeypatch, tmp_path, files):
        set_endpoint(monkeypatch, "http://127.0.0.1:9")
        with pytest.raises(InputError, match=r"127\.0\.0\.1:9/lab/model/.*tried 8 times .*check the network"):
            run_step(STEP, {}, tmp_path)
