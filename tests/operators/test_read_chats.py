"""Test ReadChats: it turns published records into messages, and counts the records that are no chat."""

import json
from pathlib import Path
from typing import Any

import pytest

from marin import Scale
from marin.data.artifacts import RawFiles
from marin.data.raw_records import read_records
from marin.errors import BadField, GarbledDocument, OverRemoval
from marin.store.files.directory import Directory
from operators.datasets.chats import SETS
from operators.read_chats import ChatFields, ReadChats
from tests.operators.running import Given, run_step

FILES = Given(name_of_input="files")
ASKED, SAID = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}


def read(tmp_path: Path, fields: ChatFields, records: list[Any], **given: Any) -> list[Any]:
    directory = Directory(str(tmp_path / "files"))
    directory.write_text("train.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    directory.write_text("README.md", "no chats")
    raw: Any = RawFiles(files=2, bytes=1).at(directory)
    made = run_step(ReadChats(files=FILES, fields=fields, **given), {FILES: raw}, tmp_path)
    assert made.files == 1
    [name] = made.directory.names()
    return [record["messages"] for _, record in read_records(made.directory, name)]


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("tulu_3", {"messages": [ASKED, SAID]}),
        ("dolphin_r1_reasoning", {"messages": [ASKED], "answer": "4", "reasoning": "…"}),
        ("verifiable_math", {"prompt": "2 + 2?", "gold_standard_solution": "4"}),
        ("natural_reasoning", {"question": "2 + 2?", "responses": [{"response": ""}, {"response": "4"}]}),
        (
            "acecode",
            {
                "question": "2 + 2?",
                "inferences": [{"completion": "5", "pass_rate": 0.1}, {"completion": "4", "pass_rate": 1.0}],
            },
        ),
        ("bespoke_stratos", {"conversations": [{"from": "user", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]}),
    ],
)
def test_the_sets_of_the_fine_tuning_become_messages(tmp_path: Path, name: str, record: dict[str, Any]) -> None:
    assert read(tmp_path, SETS[name].fields, [record]) == [[ASKED, SAID]]


def test_a_system_prompt_comes_first(tmp_path: Path) -> None:
    record = {
        "system": "Be short.",
        "conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}],
    }
    [found] = read(tmp_path, SETS["bespoke_stratos"].fields, [record])
    assert found == [{"role": "system", "content": "Be short."}, ASKED, SAID]


def test_what_is_no_chat_is_left_out_up_to_a_bound(tmp_path: Path) -> None:
    bad = [{"messages": [ASKED]}, {"messages": [{"role": "tool", "content": "x"}, SAID]}, {"messages": "text"}]
    assert len(read(tmp_path, ChatFields(), [{"messages": [ASKED, SAID]}, *bad], max_dropped=0.8)) == 1
    with pytest.raises(OverRemoval, match="3 of 4 records hold no chat in these fields"):
        read(tmp_path, ChatFields(), [{"messages": [ASKED, SAID]}, *bad])
    with pytest.raises(GarbledDocument, match="its 1 readable files hold no chat"):
        read(tmp_path, ChatFields(), bad)


def test_fields_name_turns_or_a_prompt_with_an_answer() -> None:
    for given in ({"prompt": "question"}, {"turns": ""}, {"turns": "", "prompt": "question"}):
        with pytest.raises(BadField, match="give turns, or prompt and answer"):
            ChatFields(**given)


def test_every_set_can_be_planned_at_both_scales() -> None:
    for each in SETS.values():
        assert {each.raw(scale).name for scale in Scale} == {f"read-chats/{each.name}", f"problem-chats/{each.name}"}
