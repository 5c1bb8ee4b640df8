"""Inspect: whether the batches of a training are what they should be, before it begins; Passed: the gate of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from marin import Context, Documents, ExecutorStep, Items, Report, Tokenizer, Tokens
from marin.data.batch_faults import KINDS
from marin.data.order_spec import OrderSpec
from marin.errors import BadBatches, BadField
from operators.train import Train, order_of


class Inspect(ExecutorStep[Report], op="inspect", version=2):
    """What some batches of a training hold, in ``report.json``. Raises BadBatches if something is wrong with them.

    order: as the training has it (``order_of(run)``). held_out, items: what it is evaluated with, by name: none of it
    may be in the batches, and how it is written is compared with them. bos: special token that every document begins
    with, "" for none. batches, sequences: how many are looked at, and of each. allow: kinds of findings that are said
    and stop nothing (marin.data.batch_faults). max_gap: the most that held-out text may differ by in form: a share of
    texts, or Cliff's delta (marin.text.format_gap). held_out_bytes: of each set that are read.
    """

    order: OrderSpec[ExecutorStep[Tokens]]
    tokenizer: ExecutorStep[Tokenizer]
    held_out: Mapping[str, ExecutorStep[Documents]] = field(default_factory=dict[str, ExecutorStep[Documents]])
    items: Mapping[str, ExecutorStep[Items]] = field(default_factory=dict[str, ExecutorStep[Items]])
    bos: str = ""
    batches: int = 16
    sequences: int = 64
    seed: int = 0
    allow: tuple[str, ...] = ()
    max_gap: float | None = None
    held_out_bytes: int = 2_000_000

    def check(self) -> None:
        if self.batches < 1 or self.sequences < 1 or self.held_out_bytes < 1:
            raise BadField(
                f"Inspect: batches {self.batches}, sequences {self.sequences}, held_out_bytes {self.held_out_bytes}; "
                "wanted at least 1 of each"
            )
        if self.max_gap is not None and not 0 <= self.max_gap < 1:
            raise BadField(f"Inspect.max_gap is {self.max_gap}; wanted a share of texts, at least 0 and below 1")
        if strange := sorted(set(self.allow) - set(KINDS)):
            raise BadField(f"Inspect.allow names {', '.join(strange)}; wanted some of {', '.join(KINDS)}")
        if twice := sorted(set(self.held_out) & set(self.items)):
            raise BadField(f"Inspect: held_out and items both have {', '.join(twice)}; give each set its own name")

    @property
    def passed(self) -> Passed:
        """For ``Train.gates``."""
        return Passed(report=self, label=self.label)

    def run(self, ctx: Context) -> Report:
        import json

        from marin.data.inspection import inspect_order
        from marin.data.token_store import TokenStore
        from marin.data.tokenizer import load_tokenizer
        from marin.evaluation.held_out_texts import texts_of_documents, texts_of_items

        most = self.held_out_bytes
        made = inspect_order(
            self.order,
            {source: TokenStore.open(ctx[source].directory) for source in self.order.stages.sources},
            load_tokenizer(ctx[self.tokenizer].directory),
            {
                **{name: texts_of_documents(ctx[step].directory, most) for name, step in self.held_out.items()},
                **{name: texts_of_items(ctx[step].directory, most) for name, step in self.items.items()},
            },
            batches=self.batches,
            sequences=self.sequences,
            seed=self.seed,
            bos=self.bos,
            most_gap=self.max_gap,
        )
        ctx.out.write_text("report.json", json.dumps(made.report, indent=1, sort_keys=True, allow_nan=False) + "\n")
        wrong = [finding for finding in made.findings if finding.kind not in self.allow]
        if wrong:
            kinds = tuple(dict.fromkeys(finding.kind for finding in wrong))
            raise BadBatches(
                f"{self.name}: {'; '.join(map(str, wrong))}. Mend what made them; what is meant to be so: allow={kinds}"
            )
        return Report(headline=made.headline)


class Passed(ExecutorStep[Report], op="passed", version=1):
    """That a check found nothing wrong, and no word of what it looked at.

    A training that waits for this is the same whatever was looked at: an inspection of more batches, or one task more
    that can be asked, makes no other run.
    """

    report: ExecutorStep[Report]

    def run(self, ctx: Context) -> Report:
        assert ctx[self.report].headline
        ctx.out.write_text("report.json", '{"passed": true}\n')
        return Report(headline=["passed"])


def inspected(
    run: Train,
    *,
    tokenizer: ExecutorStep[Tokenizer],
    held_out: Mapping[str, ExecutorStep[Documents]] | None = None,
    items: Mapping[str, ExecutorStep[Items]] | None = None,
) -> Train:
    """The training, not to begin before some of its batches were looked at. For more say: ``Train(gates=…)``."""
    looked = Inspect(
        order=order_of(run), tokenizer=tokenizer, held_out=held_out or {}, items=items or {}, label=run.label
    )
    return replace(run, gates=(*run.gates, looked.passed))
