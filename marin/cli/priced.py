"""A plan with its cost and its traffic between regions: ``marin plan`` and ``marin run`` begin with one."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct
from rich.console import Console

from marin.cli.exits import Exit
from marin.plan.cost.egress import Allowance, Egress, Regions, must_be_allowed, total_egress
from marin.plan.cost.plan_cost import Sizes, StepCost, expected_sizes, plan_costs
from marin.plan.decision import Action
from marin.plan.plan import Plan
from marin.report.trainings import must_not_starve


class PricedPlan(Struct, frozen=True, dict=True):
    plan: Plan
    regions: Regions  # regions of the steps and of the store
    allowance: Allowance  # bytes that may cross regions

    @cached_property
    def sizes(self) -> Sizes:
        return expected_sizes(self.plan)

    @cached_property
    def costs(self) -> list[StepCost]:
        return plan_costs(self.plan, self.regions, self.sizes)

    def show(self, console: Console, *, every: bool, where: object = None) -> None:
        """Print the plan, its shares and its costs. where: the cluster that the user named, if any."""
        from marin.report.plan_table import print_costs, print_plan, print_shares

        print_plan(console, self.plan, every=every, where=where)
        print_shares(console, self.plan, self.sizes)
        print_costs(console, self.plan, self.costs, self.regions)

    def would_run(self) -> int:
        """Return the exit code of a run that stops here, or 0. Raises the other errors of the plan that refuse a run.

        A dry run does not compare this process with its files, which takes longer than the plan.
        """
        if self.plan.having(Action.STOP):
            return Exit.DRIFT
        self._must_be_allowed()
        return Exit.OK

    def must_run(self) -> Egress:
        """Return the bytes that cross regions. Raises the errors that refuse a run."""
        self.plan.must_not_stop()
        return self._must_be_allowed()

    def _must_be_allowed(self) -> Egress:
        must_not_starve(self.plan, self.sizes)
        may = {Action.RECHECK: " (if an input changes)"}
        moved = [(f"{each.name}{may.get(each.decision.action, '')}", each.egress) for each in self.costs if each.egress]
        must_be_allowed(moved, self.allowance, self.regions)
        return total_egress(egress for _, egress in moved)
