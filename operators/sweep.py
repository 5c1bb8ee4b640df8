"""Sweep: train every value of one or two parameters, score each run, and say which value is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from marin import Checkpoint, Context, ExecutorStep, Report, Scores, value
from marin.errors import BadField
from marin.evaluation.families.point import Point, in_words
from operators.early_end import EarlyEnd, read_early_end
from operators.measured import measured_by
from operators.start import Fork
from operators.train import Train

MOST_PARAMETERS = 2  # more values than a page can show, and more runs than a grid is good for


@value("sweep_member", kw_only=True)
class SweepMember:
    """One run of a sweep. point: the value of each parameter, in the order of ``Sweep.over``."""

    point: tuple[float, ...]
    seed: int
    training: ExecutorStep[Checkpoint]
    scores: ExecutorStep[Scores]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One training and one evaluation for each point of a grid and each seed; ``report`` says which value is best.

    ::

        Sweep(over={"lr": (1e-3, 3e-3, 1e-2)}, seeds=3, run=train, score=score, primary="bpb/own").report

    A value or seed that is added later trains its own runs only. Runs that diverge are shown as diverged; they do not
    fail the experiment.

    over: values by parameter name, one or two parameters. run: makes the training of a point, called as
    ``run(lr=1e-3, seed=0)``; seed k of every point must read the same data in the same order. score: makes the
    evaluation of a training. primary: the metric that decides, as the evaluation names it. halving: the factor of
    successive halving, None to train every point to its end; see ``halvings``.
    Raises BadField for a parameter with fewer than two values, for more than two parameters, for two points that give
    the same training, and for a metric that the evaluation does not measure.
    """

    over: Mapping[str, Sequence[float]]
    run: Callable[..., Train]
    score: Callable[[Train], ExecutorStep[Scores]]
    primary: str
    seeds: int = 1
    halving: int | None = None
    label: str = "sweep"

    def __post_init__(self) -> None:
        if not 1 <= len(self.over) <= MOST_PARAMETERS:
            raise BadField(
                f"{self.label}: sweeps over {', '.join(self.over) or 'nothing'}; wanted one or two parameters"
            )
        for name, values in self.over.items():
            if len(set(values)) < 2 or len(set(values)) < len(values):
                raise BadField(f"{self.label}: {name} has the values {values}; wanted at least two, each once")
        if self.seeds < 1:
            raise BadField(f"{self.label}: seeds is {self.seeds}; wanted at least 1")
        if self.halving is not None and not 2 <= self.halving <= len(self.points):
            raise BadField(
                f"{self.label}: halving is {self.halving} for {len(self.points)} points; wanted from 2 to their number"
            )
        _must_differ(self.label, tuple(self.over), self.members)
        measured = measured_by([self.members[0].scores])
        if measured is not None:
            measured.must_hold(f"{self.label}: primary", self.primary)

    @property
    def points(self) -> list[Point]:
        return list(product(*self.over.values()))

    @property
    def report(self) -> SweepReport:
        return SweepReport(
            label=self.label,
            parameters=tuple(self.over),
            members=self.members,
            primary=self.primary,
            halvings=self.halvings,
        )

    @property
    def members(self) -> tuple[SweepMember, ...]:
        """Every run, trained to its end or to its cut."""
        return self._family[0]

    @property
    def halvings(self) -> tuple[Halve, ...]:
        """The cuts of successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943).

        With P points and a factor f, points are scored at the steps end/f^k, …, end/f, end. After each score but the
        last, the best P/f, P/f², … points by their mean over seeds go on from their checkpoints. The others are cut.
        """
        return self._family[1]

    @cached_property
    def _family(self) -> tuple[tuple[SweepMember, ...], tuple[Halve, ...]]:
        whole = {(point, seed): self._training(point, seed) for seed in range(self.seeds) for point in self.points}
        if self.halving is None:
            return self._scored(whole), ()
        cuts = 1
        while self.halving**cuts < len(self.points):
            cuts += 1
        shares = [self.halving**left for left in range(cuts, -1, -1)]  # the run's length is divided by each
        ends = {key: [_end(each, share) for share in shares] for key, each in whole.items()}
        members = self._scored({key: _until(each, ends[key][0]) for key, each in whole.items()})
        halvings: list[Halve] = []
        for rung in range(1, cuts + 1):
            halve = Halve(
                label=f"{self.label}, rung {rung}",
                parameters=tuple(self.over),
                members=members,
                primary=self.primary,
                keep=-(-len(self.points) // self.halving**rung),
                earlier=halvings[-1] if halvings else None,
            )
            halvings.append(halve)
            before = {(member.point, member.seed): member.training for member in members}
            members = self._scored(
                {
                    key: replace(
                        _until(each, ends[key][rung]),
                        first_step=ends[key][rung - 1],
                        start=Fork(before[key]),
                        early_end=EarlyEnd(cut=halve, member=in_words(tuple(self.over), key[0])),
                    )
                    for key, each in whole.items()
                }
            )
        return members, tuple(halvings)

    def _training(self, point: Point, seed: int) -> Train:
        names = tuple(self.over)
        made = self.run(**dict(zip(names, point, strict=True)), seed=seed)
        label = f"{self.label}, {in_words(names, point)}{f', seed {seed}' if self.seeds > 1 else ''}"
        return replace(made, label=label, early_end=EarlyEnd())

    def _scored(self, trainings: Mapping[tuple[Point, int], Train]) -> tuple[SweepMember, ...]:
        return tuple(
            SweepMember(point=point, seed=seed, training=training, scores=self.score(training))
            for (point, seed), training in trainings.items()
        )


class Halve(ExecutorStep[Report], op="halve"):
    """Keep the best points of a sweep's rung, and cut the others.

    members: all runs of the rung; those that an earlier rung cut are passed over. keep: points that go on. primary: the
    metric, meaned over seeds. A point with a diverged run comes last. ``cut`` in report.json maps points in words to
    reasons.
    """

    parameters: tuple[str, ...]
    members: tuple[SweepMember, ...]
    primary: str
    keep: int
    earlier: ExecutorStep[Report] | None = None

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.families.halving import halving_report

        before: dict[str, str] = {}
        if self.earlier is not None:
            before = json.loads(ctx[self.earlier].directory.read_text("report.json"))["cut"]
        made, headline = halving_report(read_members(ctx, self.members, self.primary), self.parameters, self.primary,
                                        self.keep, before)  # fmt: skip
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=headline)


class SweepReport(ExecutorStep[Report], op="sweep"):
    """Which point of a sweep is best, whether its place is bounded, and which runs diverged or were cut.

    members: one run for each point and seed. primary: the metric that decides. halvings: cuts of successive halving.
    Raises NothingScored if fewer than two points have runs that neither diverged nor were cut, unless halving cut them.
    """

    parameters: tuple[str, ...]
    members: tuple[SweepMember, ...]
    primary: str
    halvings: tuple[ExecutorStep[Report], ...] = ()

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.families.sweep import sweep_report

        rungs = [json.loads(ctx[each].directory.read_text("report.json")) for each in self.halvings]
        made, headline = sweep_report(
            read_members(ctx, self.members, self.primary), self.parameters, self.primary, rungs
        )
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=headline)


def read_members(ctx: Context, members: Sequence[SweepMember], primary: str) -> list[Any]:
    """Return what the report needs of each run: its metric, and whether it diverged."""
    from marin.evaluation.families.sweep import Member, has_diverged
    from marin.evaluation.metric_names import measured_as
    from marin.training.metrics import read_metrics

    found: list[Member] = []
    for each in members:
        metrics = ctx[each.scores].metrics
        measured_as(primary, list(metrics), "Sweep.primary")
        output = ctx[each.training].directory
        diverged = read_early_end(output)
        if not diverged and has_diverged([row["loss"] for row in read_metrics(output)]):
            diverged = "its loss rose again by more than half of what it had fallen"
        found.append(Member(point=each.point, seed=each.seed, metric=metrics[primary], diverged=diverged))
    return found


def _until(training: Train, end: int) -> Train:
    """Return the training with this last step, and a label of its own if that comes earlier."""
    label = training.label if end == training.end_step else f"{training.label}, to step {end}"
    return replace(training, end_step=end, label=label)


def _end(training: Train, share: int) -> int:
    """Return the step after which a rung scores a run: a share of its steps. Raises BadField if that is no step."""
    steps = (training.end_step - training.first_step) // share
    if steps < 1:
        raise BadField(
            f"{training.called()}: {training.end_step - training.first_step} steps cannot be divided by {share}; train "
            "longer, or give a smaller halving"
        )
    return training.first_step + steps


def _must_differ(label: str, names: Sequence[str], members: Sequence[SweepMember]) -> None:
    """Raises BadField for two runs that are the same training."""
    seen: dict[ExecutorStep[Checkpoint], str] = {}
    for each in members:
        called = f"{in_words(names, each.point)}, seed {each.seed}"
        if (other := seen.setdefault(each.training, called)) != called:
            raise BadField(
                f"{label}: {called} and {other} are the same training; run(…) must use {', '.join(names)} and seed"
            )
