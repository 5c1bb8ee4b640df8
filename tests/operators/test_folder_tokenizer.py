"""A tokenizer of one's own, as a Hugging Face folder."""

import json
from pathlib import Path

import pytest

from marin.data.tokenizer import load_tokenizer, train_bpe
from marin.errors import BadField, GarbledDocument, InputError
from marin.store.files.directory import Directory
from operators.pretrained_tokenizer import FolderTokenizer
from tests.operators.running import run_step


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    made.mkdir()
    train_bpe(Directory(str(made)), ["some text to train on, and some more text"] * 9, 300)
    return made


def test_it_is_copied_and_encodes_as_before(folder: Path, tmp_path: Path) -> None:
    (folder / "special_tokens_map.json").write_text("{}")  # what else save_pretrained writes
    made = run_step(FolderTokenizer(path=str(folder)), {}, tmp_path / "out")
    copied, given = load_tokenizer(made.directory), load_tokenizer(Directory(str(folder)))
    assert (made.vocabulary, made.digest) == (given.vocabulary, given.digest)
    assert [ids.tolist() for ids in copied.encode(["more text"])] == [
        ids.tolist() for ids in given.encode(["more text"])
    ]
    assert sorted(made.directory.names()) == ["tokenizer.json", "tokenizer_config.json"]


def test_a_missing_file_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(InputError, match=r"mine/tokenizer_config\.json selects no file"):
        run_step(FolderTokenizer(path=str(folder)), {}, tmp_path / "out")


def test_a_tokenizer_json_may_come_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    path = folder / "tokenizer.json"
    made = run_step(FolderTokenizer(path=str(path)), {}, tmp_path / "out")
    assert load_tokenizer(made.directory).eos == 1
    assert (
        load_tokenizer(run_step(FolderTokenizer(path=str(path), eos="<|pad|>"), {}, tmp_path / "pad").directory).eos
        == 2
    )
    with pytest.raises(
        InputError, match=r"there is no token '<end>'; give eos=, one of <\|bos\|>, <\|eos\|>, <\|pad\|>"
    ):
        run_step(FolderTokenizer(path=str(path), eos="<end>"), {}, tmp_path / "none")
    path.write_text(path.read_text().replace("<|eos|>", "<|stop|>"))
    with pytest.raises(InputError, match="marin cannot tell which token ends a document; give eos="):
        run_step(FolderTokenizer(path=str(path)), {}, tmp_path / "unsaid")
    with pytest.raises(BadField, match=r"is a folder, whose tokenizer_config\.json names eos"):
        FolderTokenizer(path=str(folder), eos="<|eos|>")


def test_without_an_end_of_text_it_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|bos|>"}))
    with pytest.raises(GarbledDocument, match="eos_token is None, wanted an entry of the vocabulary"):
        run_step(FolderTokenizer(path=str(folder)), {}, tmp_path / "out")


def test_more_entries_than_trainings_were_told_of_are_refused(folder: Path, tmp_path: Path) -> None:
    entries = load_tokenizer(Directory(str(folder))).vocabulary
    assert run_step(FolderTokenizer(path=str(folder), vocabulary=entries), {}, tmp_path / "out").vocabulary == entries
    with pytest.raises(InputError, match=f"the tokenizer has {entries:,} entries, vocabulary says {entries - 1:,}"):
        run_step(FolderTokenizer(path=str(folder), vocabulary=entries - 1), {}, tmp_path / "less")


def test_a_change_is_seen_from_outside(folder: Path) -> None:
    step = FolderTokenizer(path=str(folder))
    before = step.outside()
    config = folder / "tokenizer_config.json"
    config.write_text(config.read_text() + "\n")
    changed = {name for name, mark in step.outside().items() if before[name] != mark}
    assert changed == {str(config)}


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(BadField, match=r"FolderTokenizer\.path is 'mine'; wanted an absolute path"):
        FolderTokenizer(path="mine")
