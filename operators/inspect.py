"""Inspect: check the batches of a training before it begins; Passed: the gate that a training waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from marin import Context, Documents, ExecutorStep, Items, Report, Tokenizer, Tokens
from marin.data.batch_faults import KINDS
from marin.data.order_spec import OrderSpec
from marin.errors import BadBatches, BadField
from operators.train import Train, order_of


class Inspect(ExecutorStep[Report], op="inspect", version=2):
    """A report on some batches of a training, in ``report.json``. Raises BadBatches if something is wrong with them.

    order: the training's data order (``order_of(run)``). held_out, items: evaluation text by name. None of this text
    may be in the batches, and the step compares its format with theirs. bos: special token that every document begins
    with, "" for none. batches, sequences: the number of batches to read, and of sequences in each. allow: kinds of
    findings that the step reports but does not raise (marin.data.batch_faults). max_gap: the largest difference in
    format of held-out text: a share of texts, or Cliff's delta (marin.text.format_gap). held_out_bytes: bytes of each
    set to read.
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
        """Return the gate for ``Train.gates``."""
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
                f"{self.name}: {'; '.join(map(str, wrong))}. Fix the data, or allow intended findings: allow={kinds}"
            )
        return Report(headline=made.headline)


class Passed(ExecutorStep[Report], op="passed", version=1):
    """The fact that a check found nothing wrong, without its details.

    A training that waits for this gate does not depend on the details of the check. If you inspect more batches, or
    check one more task, the training does not run again.
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
    """Return the training with a gate: it begins only after an Inspect of some batches. For others: ``gates=…``."""
    looked = Inspect(
        order=order_of(run), tokenizer=tokenizer, held_out=held_out or {}, items=items or {}, label=run.label
    )
    return replace(run, gates=(*run.gates, looked.passed))
