"""Batches are inspected: each fault that is put into them is named, and nothing is found where there is none."""

from __future__ import annotations

import gzip
import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.data.batch_faults import KINDS
from marin.data.batch_sample import Batch, BatchSample, sample_batches
from marin.data.chat import Chat, packed
from marin.data.inspection import Inspection, inspect_batches, inspect_order
from marin.data.mixture import BatchSchedule, Shuffle, Stages, mixture
from marin.data.order_spec import OrderSpec
from marin.data.token_store import StoreMeta, TokenStore
from marin.data.tokenizer import LoadedTokenizer, load_tokenizer, train_bpe
from marin.errors import BadField, TokenizerMismatch
from marin.store.files.directory import Directory
from marin.text.mojibake import is_mojibake
from marin.text.normalize import normalize
from tests.shared_data import shared
from tests.support.topics import topics

SEQ_LEN, BATCH, STEPS, VOCABULARY = 128, 16, 60, 1200
BOS, EOS, PAD = 0, 1, 2  # of train_bpe
Ids = Sequence[Any]


@dataclass(frozen=True)
class Lab:
    """Two clean sources of real text, and held-out text of the one."""

    tokenizer: LoadedTokenizer
    other: LoadedTokenizer
    prose: list[str]
    code: list[str]
    held_out: list[str]

    def ids(self, texts: Iterable[str], tokenizer: LoadedTokenizer | None = None) -> list[Any]:
        return [np.append(ids, EOS) for ids in (tokenizer or self.tokenizer).encode(texts)]


def functions(text: str) -> list[str]:
    """A module in parts of some forty lines."""
    lines = text.split("\n")
    return ["\n".join(lines[at : at + 30 + at % 41]) for at in range(0, len(lines), 71)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    import asyncio.base_events
    import typing
    import unittest.mock

    folder = tmp_path_factory.mktemp("tokenizers")
    prose = [text.strip().replace("'", "’") for text in topics()]
    code = [
        part for module in (typing, unittest.mock, asyncio.base_events) for part in functions(inspect.getsource(module))
    ]

    def trained(name: str, texts: Sequence[str]) -> LoadedTokenizer:
        train_bpe(Directory(str(folder / name)), texts, VOCABULARY)
        return load_tokenizer(Directory(str(folder / name)))

    return Lab(
        tokenizer=trained("ours", [*prose[:20], *code[:60]]),
        other=trained("theirs", [text[::-1] for text in prose[20:40]]),
        prose=[text for number, text in enumerate(prose) if number % 8],
        code=code,
        held_out=prose[::8],
    )


def store(documents: Ids, *, vocabulary: int = VOCABULARY, tokenizer: str = "t") -> TokenStore:
    """Make a token store in memory, without the checks that refuse faults in writing."""
    offsets = np.concatenate(([0], np.cumsum([len(ids) for ids in documents])))
    tokens = np.concatenate(documents).astype(np.int64)
    meta = StoreMeta(
        dtype="uint16",
        tokens=len(tokens),
        documents=len(documents),
        vocabulary=vocabulary,
        tokenizer=tokenizer,
        eos=EOS,
        sha256=str(len(tokens)),
    )
    return TokenStore(meta, tokens, offsets, "memory")


def spec(**changes: Any) -> OrderSpec[str]:
    given = {"stages": Stages({0: mixture({"prose": 0.6, "code": 0.4})}), "shuffle": Shuffle.SPLITMIX, "seed": 3}
    fixed = {"batch": BatchSchedule({0: BATCH}), "block": 64, "seq_len": SEQ_LEN, "first": 0, "end": STEPS}
    return OrderSpec(**{**given, **fixed, **changes})


def sampled(lab: Lab, prose: Ids | None = None, code: Ids | None = None, **changes: Any) -> BatchSample:
    stores = {"prose": store(prose or lab.ids(lab.prose)), "code": store(code or lab.ids(lab.code))}
    order = spec(**changes).order(stores)
    walked = [stores[source] for source in order.sources]
    return sample_batches(order, walked, SEQ_LEN, 0, STEPS, batches=12)


def looked(lab: Lab, sample: BatchSample, **options: Any) -> Inspection:
    return inspect_batches(sample, lab.tokenizer, {"prose": lab.held_out}, **options)


def kinds(found: Inspection) -> set[str]:
    return {finding.kind for finding in found.findings}


def with_batches(sample: BatchSample, change: Callable[[Batch], Batch]) -> BatchSample:
    return replace(sample, batches=[change(batch) for batch in sample.batches])


def in_order_of_length(lab: Lab) -> BatchSample:
    """A sorted store, read from its beginning to its end."""
    sample = sampled(lab, prose=sorted(lab.ids(lab.prose), key=len))
    (prose,) = [number for number, name in enumerate(sample.order.names) if name == "prose"]

    def walked(batch: Batch) -> Batch:
        last = sample.stores[prose].sequences(SEQ_LEN) - BATCH
        sequence = batch.step * last // STEPS + np.arange(BATCH)
        tokens = sample.stores[prose].read(sequence, SEQ_LEN)
        return replace(batch, source=np.full(BATCH, prose), sequence=sequence, places=np.arange(BATCH), tokens=tokens)

    return with_batches(sample, walked)


def drawn_otherwise(lab: Lab) -> BatchSample:
    """The mixture says 60 % of one, the batches have 15 %."""
    said = sampled(lab)
    stages = Stages({0: mixture({"prose": 0.15, "code": 0.85})})
    return replace(said, batches=sampled(lab, stages=stages, max_epochs=9.0).batches)


def garbled(texts: Iterable[str]) -> list[str]:
    return [text.encode().decode("cp1252", errors="replace").replace("\ufffd", "") for text in texts]


def undecodable(texts: Iterable[str]) -> list[str]:
    return [text.encode("cp1252", errors="replace").decode(errors="replace") for text in texts]


FAULTS: dict[str, tuple[str, Callable[[Lab], BatchSample]]] = {
    "ids outside the vocabulary": (
        "vocabulary",
        lambda lab: sampled(lab, code=[np.append(ids[:-1], [VOCABULARY + 7, EOS]) for ids in lab.ids(lab.code)]),
    ),
    "another tokenizer": ("tokens", lambda lab: sampled(lab, code=lab.ids(lab.code, lab.other))),
    "ids shifted by one": (
        "tokens",
        lambda lab: sampled(lab, code=[np.append((ids[:-1] + 1) % VOCABULARY, EOS) for ids in lab.ids(lab.code)]),
    ),
    "documents padded": (
        "padding",
        lambda lab: sampled(lab, code=[np.append(ids, [*[PAD] * 200, EOS]) for ids in lab.ids(lab.code)]),
    ),
    "one token alone": (
        "padding",
        lambda lab: sampled(lab, code=[np.append(np.full(len(ids), 40), EOS) for ids in lab.ids(lab.code)]),
    ),
    "sequences cut short": (
        "shape",
        lambda lab: with_batches(sampled(lab), lambda batch: replace(batch, tokens=batch.tokens[:, :-1])),
    ),
    "a sequence too many": (
        "shape",
        lambda lab: with_batches(
            sampled(lab),
            lambda batch: replace(batch, source=np.append(batch.source, 0), sequence=np.append(batch.sequence, 0)),
        ),
    ),
    "the first batch again and again": (
        "repeated",
        lambda lab: (lambda sample: with_batches(sample, lambda b: replace(sample.batches[0], step=b.step)))(
            sampled(lab)
        ),
    ),
    "no end of documents": ("boundaries", lambda lab: sampled(lab, code=[ids[:-1] for ids in lab.ids(lab.code)])),
    "two ends": ("boundaries", lambda lab: sampled(lab, code=[np.append(ids, EOS) for ids in lab.ids(lab.code)])),
    "a beginning that nobody declared": (
        "special",
        lambda lab: sampled(lab, code=[np.append(BOS, ids) for ids in lab.ids(lab.code)]),
    ),
    "documents without text": (
        "empty",
        lambda lab: sampled(lab, code=[each for ids in lab.ids(lab.code) for each in (ids, ids[-1:])]),
    ),
    "another share": ("shares", drawn_otherwise),
    "sorted by length": ("order", in_order_of_length),
    "documents cut": ("cut", lambda lab: sampled(lab, code=[np.append(ids[:180], EOS) for ids in lab.ids(lab.code)])),
    "held-out text": ("held out", lambda lab: sampled(lab, prose=lab.ids([*lab.prose, *lab.held_out]))),
    "mojibake": ("characters", lambda lab: sampled(lab, prose=lab.ids(garbled(lab.prose)))),
    "undecodable": ("characters", lambda lab: sampled(lab, prose=lab.ids(undecodable(lab.prose)))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_named(fault: str, lab: Lab) -> None:
    kind, made = FAULTS[fault]
    found = looked(lab, made(lab))
    assert kind in kinds(found), found.headline
    assert len(found.headline) > len(found.findings)


def test_each_kind_has_a_fault() -> None:
    assert {kind for kind, _ in FAULTS.values()} | {"form"} == set(KINDS)


def test_nothing_is_found_in_clean_text(lab: Lab) -> None:
    found = looked(lab, sampled(lab))
    assert found.findings == []
    assert found.headline[0].endswith("nothing is wrong")
    sources = {source["name"]: source for source in found.report["sources"]}
    assert sources["prose"]["encoded_alike"] > 0.95
    assert sources["code"]["most_token"] < VOCABULARY
    assert {sample["source"] for sample in found.report["samples"]} == {"prose", "code"}
    assert any("<|eos|>" in sample["text"] for sample in found.report["samples"])


def test_parts_of_held_out_documents_are_found_and_what_documents_share_is_not(lab: Lab) -> None:
    licence, first, second = (lab.code[at] * 2 for at in (0, 1, 2))
    held_out = [licence + "\n" + first * 3]

    def copied(text: str) -> int:
        prose = lab.ids([*lab.prose, *[text] * 40], lab.tokenizer)
        found = inspect_batches(sampled(lab, prose=prose), lab.tokenizer, {"it": held_out})
        return found.report["held_out"]["it"]["copied"]

    assert copied(licence + "\n" + second * 3) == 0
    assert copied(held_out[0][len(licence) // 2 : -len(first) // 2]) == 1
    assert copied(second + "\n" + held_out[0] + "\n" + second) == 1


def test_packed_chats_are_as_they_should_be(lab: Lab) -> None:
    """They are filled up with the end of a sequence, and their template writes special tokens."""
    chats = [Chat(ids, np.ones(len(ids), bool)) for text in lab.ids(lab.code) for ids in [np.append(BOS, text[-90:])]]
    whole = list(packed(chats, SEQ_LEN, EOS))
    made = store([chat.ids for chat in whole])
    mask = np.concatenate([chat.mask for chat in whole]).astype(np.uint8)
    chatty = TokenStore(made.meta, made.tokens, made.offsets, "memory", mask)
    order = spec(stages=Stages({0: mixture({"chats": 1.0})}), end=made.sequences(SEQ_LEN) // BATCH).order(
        {"chats": chatty}
    )
    sample = sample_batches(order, [chatty], SEQ_LEN, 0, made.sequences(SEQ_LEN) // BATCH)
    assert looked(lab, sample).findings == []


def test_a_declared_beginning_is_looked_for(lab: Lab) -> None:
    begun = {name: [np.append(BOS, ids) for ids in lab.ids(getattr(lab, name))] for name in ("prose", "code")}
    assert kinds(looked(lab, sampled(lab, **begun), bos="<|bos|>")) == set()
    assert kinds(looked(lab, sampled(lab), bos="<|bos|>")) == {"special"}
    twice = {name: [np.append(BOS, ids) for ids in of] for name, of in begun.items()}
    assert kinds(looked(lab, sampled(lab, **twice), bos="<|bos|>")) == {"special"}
    with pytest.raises(BadField, match="bos is '<s>', which the tokenizer does not have"):
        looked(lab, sampled(lab), bos="<s>")


def test_another_tokenizer_by_its_digest(lab: Lab) -> None:
    stores = {"prose": store(lab.ids(lab.prose)), "code": store(lab.ids(lab.code))}
    with pytest.raises(TokenizerMismatch, match="the tokenizer"):
        inspect_order(spec(), stores, lab.tokenizer, {})


def test_a_gap_of_form_is_measured_and_stops_only_where_a_bound_is_given(lab: Lab) -> None:
    spaced = {"prose": [text.replace("\n", " \n") + " " for text in lab.held_out]}
    sample = sampled(lab)
    found = inspect_batches(sample, lab.tokenizer, spaced)
    assert found.findings == []
    measured = {gap.measure: gap.size for gap in found.gaps["prose"]}
    assert min(measured["end in white space"], measured["have lines that end in white space"]) > 0.8
    assert found.headline[1].startswith("prose differs in form from the training's text: ")
    assert "100% end in white space, of the training's texts " in found.headline[1]
    assert kinds(inspect_batches(sample, lab.tokenizer, spaced, most_gap=0.8)) == {"form"}


def test_what_is_looked_at_depends_on_the_seed_alone(lab: Lab) -> None:
    once, again = sampled(lab), sampled(lab)
    assert [batch.step for batch in once.batches] == [batch.step for batch in again.batches]
    assert all((a.tokens == b.tokens).all() for a, b in zip(once.batches, again.batches, strict=True))
    assert [batch.step for batch in once.batches][:2] == [0, 1]
    assert len(once.batches) == 13 or len(once.batches) == 14
    assert once.batches[-1].step >= STEPS * 11 // 12


def real_documents(name: str) -> list[str]:
    with gzip.open(shared(f"{name}/{name}.jsonl.gz"), "rt") as lines:
        return [normalize(json.loads(line)["text"]) for line in lines][::8]


@pytest.mark.parametrize("name", ["peps", "rfcs"])
def test_nothing_is_found_in_real_text_split_at_random(name: str, tmp_path: Path) -> None:
    """One document in ten is held out of text that repeats its licences and headings."""
    directory = Directory(str(tmp_path))
    directory.write_bytes("tokenizer.json", shared("gpt2-tokenizer/tokenizer.json").read_bytes())
    directory.write_text("tokenizer_config.json", '{"eos_token": "<|endoftext|>"}')
    tokenizer = load_tokenizer(directory)
    texts = real_documents(name)
    held_out, kept = texts[::10], [text for number, text in enumerate(texts) if number % 10]
    documents = [np.append(ids, tokenizer.eos) for ids in tokenizer.encode(kept)]
    made = store(documents, vocabulary=tokenizer.vocabulary, tokenizer=tokenizer.digest)
    made = TokenStore(replace(made.meta, eos=tokenizer.eos), made.tokens, made.offsets, "memory")
    order = spec(stages=Stages({0: mixture({"it": 1.0})}), end=made.sequences(SEQ_LEN) // BATCH)
    found = inspect_order(order, {"it": made}, tokenizer, {"it": held_out})
    assert found.findings == []


def test_mojibake_is_told_from_other_alphabets() -> None:
    assert is_mojibake("Ã©tÃ© Ã  la plage, câ€™est")
    for text in ("été à la plage, c’est", "Spaß” und Größe", "ÃO É NÃO", "日本語のテキスト", "naïve", "plain"):
        assert not is_mojibake(text)
