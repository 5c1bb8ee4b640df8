"""Test that chats become token stores in which only the assistant's tokens count in the loss."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.data.artifacts import RawFiles, Tokenizer, Tokens
from marin.data.mixture import BatchSchedule, Mixture, Shuffle, Stages
from marin.data.order_spec import OrderSpec
from marin.data.token_store import MASK, TokenStore
from marin.data.tokenizer import EOS, load_tokenizer, train_bpe
from marin.errors import GarbledDocument, OverRemoval, TruncatedShard
from marin.store.files.directory import Directory
from marin.training.batches import Batches
from marin.training.metrics import read_metrics
from marin.training.optimizer import Adam
from marin.training.spec import Source, Start, StartMode
from operators.tokenize_chats import TokenizeChats
from tests.operators.running import Given, run_step
from tests.training.runs import LLAMA, random_checkpoint, small_spec, train_here, write_source
from tests.training.test_run_files import OneDevice

CHATS, TOKENIZER = Given(name_of_input="chats", label="chats"), Given(name_of_input="tokenizer", label="tokenizer")
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}:\n{% if message['role'] == 'assistant' %}{% generation %}"
    "{{ message['content'] }}\n{% endgeneration %}{% else %}{{ message['content'] }}\n{% endif %}{% endfor %}"
)
SEQ_LEN = 64
STEP = TokenizeChats(chats=CHATS, tokenizer=TOKENIZER, seq_len=SEQ_LEN, template=TEMPLATE, label="chats")
ANSWERS = [[f"the sum is {a + b}", f"and times two {2 * (a + b)}"] for a in range(7) for b in range(5)]


def chat(answers: list[str]) -> list[dict[str, str]]:
    asked = ({"role": "user", "content": f"what is number {number}?"} for number in range(len(answers)))
    said = ({"role": "assistant", "content": answer} for answer in answers)
    return [message for pair in zip(asked, said, strict=True) for message in pair]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    directory = Directory(str(tmp_path_factory.mktemp("tokenizer")))
    texts = [f"{message['role']}:\n{message['content']}\n" for answers in ANSWERS for message in chat(answers)]
    vocabulary, digest = train_bpe(directory, texts, 320)
    made: Any = Tokenizer(vocabulary=vocabulary, digest=digest).at(directory)
    return made


def given_chats(where: Path, records: list[Any]) -> RawFiles:
    directory = Directory(str(where))
    directory.write_text("chats.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    made: Any = RawFiles(files=1, bytes=1).at(directory)
    return made


def tokenized(step: TokenizeChats, tokenizer: Tokenizer, where: Path, records: list[Any]) -> Tokens:
    inputs: dict[Any, Any] = {CHATS: given_chats(where / "chats", records), TOKENIZER: tokenizer}
    return run_step(step, inputs, where)


@pytest.mark.filterwarnings("ignore")  # transformers' own
def test_the_loss_counts_the_answers_and_no_chat_goes_over_a_sequence(tokenizer: Tokenizer, tmp_path: Path) -> None:
    made = tokenized(STEP, tokenizer, tmp_path, [{"messages": chat(answers)} for answers in ANSWERS])
    loaded, store = load_tokenizer(tokenizer.directory), TokenStore.open(made.directory)
    assert (made.tokens % SEQ_LEN, made.vocabulary, made.documents) == (0, tokenizer.vocabulary, len(ANSWERS))
    assert store.mask is not None
    counted = loaded.decode(store.tokens[store.mask.astype(bool)])
    assert counted == "".join(f"{answer}\n" for answers in ANSWERS for answer in answers)
    windows = np.arange(store.sequences(SEQ_LEN))
    for row in store.read(windows, SEQ_LEN):
        whole = [text for text in loaded.decode(row).split(EOS) if text]
        assert all(text.startswith("user:\n") and text.count("assistant:\n") == 2 for text in whole)
    assert (store.counts(windows, SEQ_LEN).sum(1) > 0).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"messages": []}, r"line 2: the messages are '\[\]', wanted a list of role and content"),
        ({"text": "x"}, "line 2: the messages are 'None'"),
        ({"messages": [{"role": "user", "content": 5}]}, "line 2: message 1 is .* wanted the strings role and content"),
        ({"messages": [{"role": "user", "content": "hello"}]}, "line 2: no message has the role 'assistant'"),
        ({"messages": chat([f"the sum {EOS} is"])}, r"line 2: message 2 spells the special token <\|eos\|>"),
    ],
)
def test_what_is_no_chat_is_named(tokenizer: Tokenizer, tmp_path: Path, record: Any, message: str) -> None:
    with pytest.raises(GarbledDocument, match=message):
        tokenized(STEP, tokenizer, tmp_path, [{"messages": chat(ANSWERS[0])}, record])


@pytest.mark.filterwarnings("ignore")
def test_a_template_that_would_teach_nothing_or_cut_attention_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    records = [{"messages": chat(ANSWERS[0])}]
    with pytest.raises(GarbledDocument, match=r"has no chat template"):
        tokenized(dataclasses.replace(STEP, template=""), tokenizer, tmp_path / "none", records)
    inside = TEMPLATE.replace("{% endgeneration %}", EOS + "{% endgeneration %}")
    with pytest.raises(GarbledDocument, match="writes the end-of-sequence token inside a chat"):
        tokenized(dataclasses.replace(STEP, template=inside), tokenizer, tmp_path / "inside", records)


UNTAGGED = (
    "{% for message in messages %}{{ message['role'] }}:\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:\n{% endif %}"
)


@pytest.mark.filterwarnings("ignore")
def test_a_published_template_counts_what_it_adds_for_an_answer(tokenizer: Tokenizer, tmp_path: Path) -> None:
    records = [{"messages": chat(answers)} for answers in ANSWERS]
    stores = [
        TokenStore.open(tokenized(step, tokenizer, tmp_path / name, records).directory)
        for name, step in {"tagged": STEP, "untagged": dataclasses.replace(STEP, template=UNTAGGED)}.items()
    ]
    for of in ("tokens", "mask"):
        np.testing.assert_array_equal(*(getattr(store, of) for store in stores))
    # As Qwen3 leaves the reasoning out of all answers but the last.
    forgets = UNTAGGED.replace("{{ message['content'] }}", "{{ message['content'] if loop.last else '…' }}")
    with pytest.raises(GarbledDocument, match=r"writes message 2 differently once others follow"):
        tokenized(dataclasses.replace(STEP, template=forgets), tokenizer, tmp_path / "forgets", records)


@pytest.mark.filterwarnings("ignore")
def test_long_chats_are_left_out_up_to_a_bound(tokenizer: Tokenizer, tmp_path: Path) -> None:
    records = [{"messages": chat(answers)} for answers in ANSWERS[:3]] + [{"messages": chat(ANSWERS[0] * 9)}]
    with pytest.raises(OverRemoval, match=r"1 of 4 chats are longer than 64 tokens, more than max_dropped=0\.05"):
        tokenized(STEP, tokenizer, tmp_path / "bound", records)
    made = tokenized(dataclasses.replace(STEP, max_dropped=0.5), tokenizer, tmp_path / "left out", records)
    assert made.documents == 3


@pytest.mark.filterwarnings("ignore")
def test_a_mask_that_ends_early_is_an_error(tokenizer: Tokenizer, tmp_path: Path) -> None:
    made = tokenized(STEP, tokenizer, tmp_path, [{"messages": chat(ANSWERS[0])}])
    made.directory.write_bytes(MASK, made.directory.read_bytes(MASK)[:-1])
    with pytest.raises(TruncatedShard, match="tokenize again"):
        TokenStore.open(made.directory)


def order_of(stores: dict[str, TokenStore], *, batch: int, steps: int) -> Any:
    return OrderSpec(
        stages=Stages({0: Mixture({"chats": 0.75, "web": 0.25})}), batch=BatchSchedule({0: batch}),
        shuffle=Shuffle.FEISTEL, seed=3, block=batch, seq_len=32, first=0, end=steps, max_epochs=100.0,
    ).order(stores)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_training_mixes_in_a_literal_share_and_counts_only_answers(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The loss of the first step, against our own scorer's probabilities of the tokens that count."""
    from marin.training.scoring import load_model

    step = dataclasses.replace(STEP, seq_len=32)
    made = tokenized(step, tokenizer, tmp_path, [{"messages": chat([answers[0]])} for answers in ANSWERS])
    web = write_source(tmp_path / "web", stride=1)
    meta = json.loads((tmp_path / "web/meta.json").read_text())  # as if one tokenizer had made both
    sources = (Source(name="chats", store=made.directory.url), Source(name="web", store=web.store))
    start = Directory(str(tmp_path / "start"))
    random_checkpoint(start, LLAMA, made.vocabulary, seed=1)
    (tmp_path / "web/meta.json").write_text(json.dumps(meta | {"tokenizer": made.tokenizer, "eos": 1}))
    spec = dataclasses.replace(
        small_spec(tmp_path / "run"),
        sources=sources, stages={0: {"chats": 0.75, "web": 0.25}}, vocabulary=made.vocabulary, block=8,
        separate_documents=False, end_step=2, max_epochs=100.0, optimizer=Adam(peak_lr=1e-2, z_loss=0.0),
        start=Start(mode=StartMode.WEIGHTS, checkpoint=start.url),
    )  # fmt: skip
    train_here(spec)
    rows = read_metrics(Directory(spec.state))
    assert [row["sources"] for row in rows] == [{"chats": 6, "web": 2}] * 2
    stores = {source.name: TokenStore.open(Directory(source.store)) for source in sources}
    order = order_of(stores, batch=8, steps=2)
    batches = Batches(
        order, [stores[name] for name in order.names], BatchSchedule({0: 8}), seq_len=32, eos=None, trainer=OneDevice
    )
    numbers = batches.numbers(0)
    weights, scores = batches.weights(numbers)[:, :-1], load_model(start)(batches.tokens(numbers))
    assert 0 < weights.mean() < 0.9
    assert rows[0]["loss"] == pytest.approx(-(weights * scores).sum() / weights.sum(), rel=1e-4)
