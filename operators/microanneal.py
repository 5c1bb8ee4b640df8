"""Microanneal: judge datasets by short cooldowns of one checkpoint, one on each mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from marin import (
    BatchSchedule,
    Checkpoint,
    ExecutorStep,
    Mix,
    Report,
    Resources,
    Scores,
    Stages,
)
from marin.data.batch_faults import KINDS
from marin.data.mixture import Blended, ByTokens, Mixture, source_name
from marin.errors import BadField
from marin.steps.resources import training_cost
from marin.steps.value import check_fields, encode
from marin.training.optimizer import Adam, Muon, Optimizer
from marin.training.schedule import Decay, Schedule
from operators.check_tasks import CheckTasks
from operators.evaluate import Evaluate
from operators.inspect import Inspect
from operators.judge import Judge, Runs, asked_of
from operators.measured import must_be_measured
from operators.pretrained_model import FolderModel, PretrainedModel
from operators.start import Fork, OptimizerState
from operators.train import Milestone, Train, order_of, trained_by

CONTROL = "control"
DECAYED = 0.5  # share of the peak rate; a checkpoint below it has been cooled down already
EVERY_KIND = tuple(KINDS)
LONGEST = 4096  # tokens of a sequence, unless seq_len says more

type TokenMix = Mix[Any]  # of token stores; Any, because a mixture of Tokenize alone is another type


@dataclass(frozen=True, kw_only=True)
class Microanneal:
    """One run for each arm and seed, its evaluations, and a verdict on each candidate.

    Every run forks from ``base`` with its optimizer state. Its learning rate decays in a straight line from base's last
    rate to zero. A published model (PretrainedModel, FolderModel) has no optimizer state, and marin does not know its
    schedule: give ``peak_lr``, and its runs warm up over a twentieth of their steps. Run k of every arm reads in the
    order of seed k; only the mixture differs. If you add a seed, a candidate or an evaluation, only its runs are new.
    ``verdict`` is the step to name as a result.

    Raises BadField for a base that is too early in its training or cooled down already, for a cooldown that is too
    short, for candidates that are no mixtures or equal the control, and for names that no evaluation measures. The plan
    refuses a mixture that would exhaust a source. Procedure and pitfalls: Marin's 8B retrospective,
    "Interlude: Microannealing", issues 784, 820.
    """

    base: ExecutorStep[Checkpoint]
    control: TokenMix  # the usual mixture
    candidates: Mapping[str, TokenMix]
    tokens: int  # of each run, rounded up to whole batches
    evaluations: tuple[ExecutorStep[Scores], ...]  # of any checkpoint; each is repeated for every run
    primary: tuple[str, ...]  # the task metrics that decide: "gsm/olmes/bpb"
    seeds: int = 3
    margin: float = 0.01  # smaller gains and losses do not matter, in the unit of the metrics
    guard: Mapping[str, float] = field(default_factory=dict[str, float])  # the most that metrics may lose; see Judge
    references: Mapping[str, str] = field(default_factory=dict[str, str])  # see Judge
    evidence: Mapping[str, ExecutorStep[Report]] = field(default_factory=dict[str, ExecutorStep[Report]])
    earlier: tuple[Microanneal, ...] = ()  # of this family of checkpoints, to estimate the spread of seeds
    label: str = "microanneal"
    parent: Train | None = None  # the training that made base, if base does not name it
    step: int | None = None  # the optimizer step of base, if base is neither a milestone nor the end of parent
    max_epochs: float = 4.0  # over a source, together with base's own reading
    allow_starved: tuple[str, ...] = ()  # of any arm
    earliest: float = 0.5  # share of the parent's steps that base must have done
    shortest: float = 0.25  # tokens a parameter: 2 billion for 8 billion, which is "usually too short"
    most_gap: float | None = None  # between the format of evaluation text and batches, see Inspect; None: no bound
    resources: Resources | None = None  # None: the parent's
    peak_lr: float | None = None  # for a published base, whose learning rate marin does not know
    batch: int = 64  # sequences a step, for a published base
    seq_len: int | None = None  # tokens of a sequence, for a published base; None for its own length, at most 4,096

    def __post_init__(self) -> None:
        if isinstance(self.candidates, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._check_mixtures()
        check_fields(self)
        self._check_candidates()
        self._check_amounts()
        self._check_base()

    @property
    def verdict(self) -> Judge:
        first = self.trainings[CONTROL][0]
        chips = first.resources.accelerator
        return Judge(
            label=self.label,
            control=CONTROL,
            arms=self.scores,
            primary=self.primary,
            margin=self.margin,
            guard=self.guard,
            tokens=first.tokens_trained(),
            references=self.references,
            evidence=self.evidence,
            inspections=self.inspections,
            earlier=tuple(each.scores for each in self.earlier),
            chip_hours=None if chips is None else training_cost(first.flops(), chips),
        )

    @cached_property
    def mixtures(self) -> dict[str, TokenMix]:
        return {CONTROL: self.control, **self.candidates}

    @cached_property
    def trainings(self) -> dict[str, tuple[Train, ...]]:
        """Return by arm a run for each seed."""
        return {arm: tuple(self._run(arm, number) for number in range(self.seeds)) for arm in self.mixtures}

    @cached_property
    def scores(self) -> Runs:
        """Return by arm and seed each evaluation of its run."""
        return {
            arm: tuple(
                tuple(
                    asked_of(evaluation, run, _label(run.label, evaluation.label, len(self.evaluations)))
                    for evaluation in self.evaluations
                )
                for run in runs
            )
            for arm, runs in self.trainings.items()
        }

    @cached_property
    def inspections(self) -> dict[str, Inspect]:
        """Return by arm an Inspect of some batches of its first run, beside the evaluation's items."""
        asked = [each for each in self.evaluations if isinstance(each, Evaluate) and each.tasks]
        if not asked:
            return {}
        return {
            arm: Inspect(
                label=runs[0].label,
                order=order_of(runs[0]),
                tokenizer=asked[0].tokenizer,
                items={name: items for each in asked for name, items in each.tasks.items()},
                allow=EVERY_KIND,
                max_gap=self.most_gap,
            )
            for arm, runs in self.trainings.items()
        }

    @cached_property
    def _askable(self) -> CheckTasks:
        """Return the check of the tasks, even of no task, so that a first task added later changes no training."""
        return CheckTasks.of(self.evaluations, self.label)

    @cached_property
    def _parent(self) -> Train:
        published = isinstance(self.base, PretrainedModel | FolderModel)
        if (self.peak_lr is not None) is not published:
            said = "does not give its last learning rate; give one, such as peak_lr=1e-4"
            why = said if published else "gives its own last learning rate; leave peak_lr out"
            raise BadField(f"{self.label}: {self.base.name} {why}")
        found = self._first_cooldown if published else self.parent or trained_by(self.base)
        if found is None:
            raise BadField(
                f"{self.label}: {self.base.name} does not name the training that made it, so marin does not know its "
                "learning rate; give parent=Train(…)"
            )
        return found

    @property
    def _first_cooldown(self) -> Train:
        """Return the control's first run on a published model; the other runs differ in mixture and seed."""
        base = self.base
        assert isinstance(base, PretrainedModel | FolderModel)
        assert self.peak_lr is not None
        if base.shape is None or base.vocabulary is None:
            raise BadField(
                f"{self.label}: {base.name} gives no shape and vocabulary, and its runs need them; give "
                "both (`marin new model` writes them)"
            )
        seq_len = self.seq_len or min(base.shape.seq_len, LONGEST)
        steps = -(-self.tokens // (self.batch * seq_len))
        warmup = -(-steps // 20)
        return Train(
            label=self.label,
            model=base.shape,
            vocabulary=base.vocabulary,
            optimizer=Adam(peak_lr=self.peak_lr),
            schedule=Schedule(warmup=warmup, decay=Decay(warmup, steps)),
            data=Stages({0: self.control}),
            batch=BatchSchedule({0: self.batch}),
            seq_len=seq_len,
            seed=0,
            block=self.batch,
            end_step=steps,
            start=Fork(base, optimizer_state=OptimizerState.FRESH),
            max_epochs=self.max_epochs,
            allow_starved=self.allow_starved,
            resources=self.resources or Resources(),
        )

    @property
    def _first(self) -> int:
        if self.peak_lr is not None:
            return 0
        return self.base.step if isinstance(self.base, Milestone) else self.step or self._parent.end_step

    @property
    def _rate(self) -> float:
        """Return base's last learning rate."""
        return self._parent.schedule.learning_rate(self._first - 1, self._parent.optimizer.peak_lr)

    def _run(self, arm: str, number: int) -> Train:
        parent, first = self._parent, self._first
        batch = parent.batch.batch(max(first - 1, 0))
        end = first + -(-self.tokens // (batch * parent.seq_len))
        data = Stages({**{at: mix for at, mix in parent.data.at.items() if at < first}, first: self.mixtures[arm]})
        names = {source_name(source) for source in data.sources}
        return replace(
            parent,
            label=f"{self.label}-{arm}-{number}",
            optimizer=parent.optimizer if self.peak_lr else _at_rate(parent.optimizer, self._rate),
            schedule=parent.schedule if self.peak_lr else Schedule(decay=Decay(first, end)),
            data=data,
            batch=BatchSchedule(
                {**{at: size for at, size in parent.batch.at.items() if at < first}, first: batch}
                if parent.batch.at != {0: batch}
                else {0: batch}
            ),
            seed=parent.seed + number,
            first_step=first,
            end_step=end,
            start=parent.start if self.peak_lr else Fork(self.base),
            max_epochs=self.max_epochs,
            allow_starved=tuple(name for name in self.allow_starved if name in names),
            watch=None,
            gates=(self._askable.passed,),
            keep_every=None,
            keep_at=(),
            resources=self.resources or parent.resources,
        )

    def _check_mixtures(self) -> None:
        for arm, mix in self.mixtures.items():
            if not isinstance(mix, Mixture | ByTokens | Blended):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadField(
                    f"{self.label}: {arm} is a {type(mix).__name__}; candidates differ only in the mixture, so give a "
                    "mixture: blend((0.7, control), (0.3, new))"
                )

    def _check_candidates(self) -> None:
        if not self.candidates:
            raise BadField(f"{self.label}: there are no candidates; give at least one mixture by name")
        if CONTROL in self.candidates:
            raise BadField(f"{self.label}: a candidate cannot be called {CONTROL!r}; that is the usual mixture")
        names = dict[bytes, str]()
        for arm, mix in self.mixtures.items():
            if (other := names.setdefault(encode(mix, arm, []), arm)) != arm:
                raise BadField(f"{self.label}: {arm} has the same mixture as {other}; give every arm its own mixture")

        every = {source_name(source) for mix in (*self.mixtures.values(), *self._parent.data.mixtures.values())
                 for source in mix.sources}  # fmt: skip
        if strange := sorted(set(self.allow_starved) - every):
            raise BadField(f"{self.label}: allow_starved names {', '.join(strange)}, which no arm reads")

    def _check_amounts(self) -> None:
        if self.seeds < 1 or self.tokens < 1:
            raise BadField(f"{self.label}: {self.seeds} seeds of {self.tokens:,} tokens; wanted at least 1 of each")
        if not self.evaluations:
            raise BadField(f"{self.label}: there are no evaluations; a verdict goes by tasks, so give at least one")
        must_be_measured("Microanneal", self.evaluations, self.primary, self.guard, self.references)

    def _check_base(self) -> None:
        parent, first = self._parent, self._first
        self._check_length(parent)
        if self.peak_lr is not None:
            return
        if first < self.earliest * parent.end_step:
            raise BadField(
                f"{self.label}: {self.base.name} is at step {first:,} of the {parent.end_step:,} of {parent.called()}, "
                f"too early for a cooldown to predict the final model; wanted {self.earliest:.0%} of them or more. "
                f"If this step is intended, give earliest={first / parent.end_step:.2g}"
            )
        peak = parent.optimizer.peak_lr
        rates = [parent.schedule.learning_rate(max(step, 0), peak) for step in (first - 2, first - 1)]
        if rates[1] > rates[0] * (1 + 1e-9):
            raise BadField(
                f"{self.label}: {self.base.name} is in a warmup of its learning rate; take a checkpoint from after it"
            )
        if rates[1] < DECAYED * peak:
            raise BadField(
                f"{self.label}: the learning rate of {self.base.name} has decayed to {rates[1]:.3g} of {peak:.3g}; "
                "take a checkpoint from before its cooldown"
            )

    def _check_length(self, parent: Train) -> None:
        parameters = parent.model.parameters(parent.vocabulary)
        if self.tokens < self.shortest * parameters:
            raise BadField(
                f"{self.label}: {self.tokens:,} tokens for {parameters:,} parameters, {self.tokens / parameters:.2g} "
                f"a parameter, are too few for tasks to show an effect of data; wanted at least {self.shortest:g} a "
                f"parameter, here {int(self.shortest * parameters):,} tokens. If this length is intended, give "
                f"shortest={self.tokens / parameters:.2g}"
            )


def _at_rate(optimizer: Optimizer, rate: float) -> Optimizer:
    """Return the optimizer at another peak rate, with Muon's second rate in proportion."""
    if isinstance(optimizer, Muon):
        return replace(optimizer, peak_lr=rate, adam_lr=optimizer.adam_lr * rate / optimizer.peak_lr)
    return replace(optimizer, peak_lr=rate)


def _label(run: str, evaluation: str, of: int) -> str:
    return run if of == 1 else f"{run}-{evaluation}"
