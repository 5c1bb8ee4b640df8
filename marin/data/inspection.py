"""Inspect a training's data before the run: the right text, the right tokens, and no text of the evaluation.

The inspection reads some batches, spread over the run, exactly as the training would. marin.data.batch_checks lists the
checks. The inspection takes seconds. It finds common faults and likely misses rare ones, such as one document in ten
thousand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from marin.data.batch_checks import CHECKS, Declared, by_source, documents, drawn_and_meant
from marin.data.batch_faults import Finding
from marin.data.batch_sample import BatchSample, sample_batches
from marin.data.held_out_tokens import HeldOutTokens
from marin.data.mixture import source_name
from marin.data.order_spec import OrderSpec
from marin.data.text_checks import in_turns, read_pieces, read_text, text_findings
from marin.data.token_store import TokenStore, one_tokenizer
from marin.data.tokenizer import LoadedTokenizer
from marin.errors import BadField
from marin.text.format_gap import Form, FormatGap, form, format_gaps, gaps_in_words

SHOWN_TOKENS = 80  # per source
COMPARED, COMPARED_TOKENS = 128, 2048  # documents per source whose form is compared, and tokens of each


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """The result of an inspection. report: everything, JSON-able. findings: the faults.

    gaps: by evaluation, the differences in form from the training's text.
    """

    report: dict[str, Any]
    findings: Sequence[Finding]
    gaps: Mapping[str, Sequence[FormatGap]]

    @property
    def headline(self) -> list[str]:
        """Return lines on the inspected batches, the faults, and the differences in form of held-out text."""
        looked = self.report["looked_at"]
        what = (
            f"{looked['sequences']:,} sequences of {looked['batches']} batches between steps {looked['first']:,} and "
        )
        wrong = [str(finding) for finding in self.findings]
        lines = [f"{what}{looked['end']:,}: {'nothing is wrong' if not wrong else f'{len(wrong)} wrong'}", *wrong]
        return lines + [
            f"{name} differs in form from the training's text: {gaps_in_words(found)}"
            for name, found in self.gaps.items()
            if found
        ]


def special_tokens(tokenizer: LoadedTokenizer) -> dict[int, str]:
    """Return the names of the special tokens by id, without the unknown token, which stands for text."""
    library: Any = tokenizer.tokenizer
    unknown, added = getattr(library.model, "unk_token", None), library.get_added_tokens_decoder()
    return {token: each.content for token, each in sorted(added.items()) if each.special and each.content != unknown}


def declared_tokens(tokenizer: LoadedTokenizer, bos: str) -> Declared:
    """Return the tokens that batches should hold. bos: the token that begins every document, "" for none.

    Raises BadField if the tokenizer has no token ``bos``.
    """
    library: Any = tokenizer.tokenizer
    token = library.token_to_id(bos) if bos else None
    if bos and token is None:
        raise BadField(
            f"bos is {bos!r}, which the tokenizer does not have; its special tokens are {special_tokens(tokenizer)}"
        )
    return Declared(vocabulary=tokenizer.vocabulary, special=special_tokens(tokenizer), bos=token)


def inspect_order[S](
    spec: OrderSpec[S],
    stores: Mapping[S, TokenStore],
    tokenizer: LoadedTokenizer,
    held_out: Mapping[str, Sequence[str]],
    *,
    batches: int = 16,
    sequences: int = 64,
    seed: int = 0,
    bos: str = "",
    most_gap: float | None = None,
) -> Inspection:
    """Inspect a training's batches in its own order. ``sample_batches`` and ``inspect_batches`` explain the arguments.

    Raises TokenizerMismatch for tokens of another tokenizer, and the errors of ``OrderSpec.order``.
    """
    order = spec.order(stores)
    digests = {source_name(source): stores[source].meta.tokenizer for source in order.sources}
    one_tokenizer({"the tokenizer": tokenizer.digest, **digests})
    walked = [stores[source] for source in order.sources]
    sample = sample_batches(
        order, walked, spec.seq_len, spec.first, spec.end, batches=batches, sequences=sequences, seed=seed
    )
    return inspect_batches(sample, tokenizer, held_out, bos=bos, most_gap=most_gap)


def inspect_batches(
    sample: BatchSample,
    tokenizer: LoadedTokenizer,
    held_out: Mapping[str, Sequence[str]],
    *,
    bos: str = "",
    most_gap: float | None = None,
) -> Inspection:
    """Inspect the sampled batches. held_out: texts of the evaluation by name.

    most_gap: a difference in form above this size (marin.text.format_gap) is a finding. None: only report it.
    """
    declared = declared_tokens(tokenizer, bos)
    read = read_pieces(sample, tokenizer, declared.special)
    findings = [finding for check in CHECKS for finding in check(sample, declared)]
    in_text, alike = text_findings(sample, read, tokenizer, declared)
    findings += in_text
    drawn, meant = drawn_and_meant(sample)
    training = _form(sample, drawn, tokenizer, declared.special)
    apart = {name: format_gaps(training, form(texts)) for name, texts in sorted(held_out.items())}
    findings += [
        Finding(kind="form", text=f"{name} differs in {gap.measure!r} by {abs(gap.size):.2f}: {gap}")
        for name, found in apart.items()
        for gap in found
        if most_gap is not None and abs(gap.size) > most_gap
    ]
    disjoint = dict[str, Any]()
    for name, texts in sorted(held_out.items()):
        index = HeldOutTokens(list(tokenizer.encode(texts)))
        copies = index.find(sample)
        disjoint[name] = {
            "documents": len(texts),
            "too_short": index.too_short,
            "pieces": len(copies),
            "copied": len({each.document for each in copies}),
        }
        if copies:
            one, copied = copies[0], disjoint[name]["copied"]
            of = sample.order.names[one.piece.source]
            text = (
                f"{copied} of its {len(texts)} documents are in {len(copies)} pieces of training text, such as "
                f"{one.tokens} tokens of a document of {of} in step {one.piece.step}: "
                f"{texts[one.document].strip()[:60]!r}"
            )
            findings.append(Finding(kind="held out", source=name, text=text))
    report = {
        "looked_at": {
            "batches": len(sample.batches),
            "steps": [batch.step for batch in sample.batches],
            "sequences": sample.sequences,
            "seq_len": sample.seq_len,
            "first": sample.first,
            "end": sample.end,
        },
        "findings": [asdict(finding) for finding in findings],
        "sources": _sources(sample, drawn, meant, alike),
        "held_out": disjoint,
        "gaps": {name: [asdict(gap) for gap in found] for name, found in apart.items()},
        "samples": _samples(sample, tokenizer),
    }
    return Inspection(report=report, findings=findings, gaps=apart)


def _form(
    sample: BatchSample, drawn: Mapping[str, int], tokenizer: LoadedTokenizer, special: Mapping[int, str]
) -> Form:
    """Return the form of the training text, from the beginnings of some sampled documents.

    Each source weighs as much as its share of the draws. A sample meets long documents more often than short ones, so a
    long document weighs less.
    """
    texts, weights, whole = list[str](), list[float](), list[bool]()
    for name, pieces in by_source(sample).items():
        of = list({piece.document: piece for piece in in_turns(pieces)}.values())[:COMPARED]
        eos, once = sample.stores[of[0].source].meta.eos, [1 / (sample.seq_len + piece.length) for piece in of]
        texts += [read_text(sample.whole(piece, COMPARED_TOKENS), tokenizer, {*special, eos}) for piece in of]
        weights += [max(drawn[name], 1) * each / sum(once) for each in once]
        whole += [piece.length <= COMPARED_TOKENS for piece in of]
    return form(texts, weights=weights, whole=whole)


def _sources(
    sample: BatchSample, drawn: Mapping[str, int], meant: Mapping[str, float], alike: Mapping[str, float]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, pieces in by_source(sample).items():
        tokens = np.concatenate([piece.tokens for piece in pieces])
        eos = sample.stores[pieces[0].source].meta.eos
        lengths = np.array(documents(pieces))
        found.append(
            {
                "name": name,
                "drawn": drawn[name],
                "meant": round(meant[name], 3),
                "tokens": len(tokens),
                "least_token": int(tokens.min()),
                "most_token": int(tokens.max()),
                "documents": len(lengths),
                "ends": round(float((tokens == eos).mean()), 6),
                "lengths": {f"{share}%": int(np.percentile(lengths, share)) for share in (1, 10, 50, 90, 99)},
                "encoded_alike": round(alike[name], 4),
            }
        )
    return found


def _samples(sample: BatchSample, tokenizer: LoadedTokenizer) -> list[dict[str, Any]]:
    """Return the text around a document's end from each source, with special tokens spelt out."""
    found: list[dict[str, Any]] = []
    for number, name in sorted(enumerate(sample.order.names), key=lambda each: each[1]):
        rows = sample.rows(number)
        if not rows:
            continue
        eos = sample.stores[number].meta.eos
        step, row = next(((step, row) for step, row in rows if (row[:-1] == eos).any()), rows[0])
        at = max(int(np.argmax(row == eos)) - SHOWN_TOKENS // 2, 0)
        ids = row[at : at + SHOWN_TOKENS].tolist()
        text = tokenizer.decode(token for token in ids if 0 <= token < tokenizer.vocabulary)
        found.append({"source": name, "step": step, "text": text})
    return found
