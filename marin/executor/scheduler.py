"""Run the plan's steps in dependency order. A failure stops only the steps that depend on it."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from marin.errors import MarinError, PlanError, StalePlan
from marin.executor.backends.backend import Backend
from marin.executor.commit import commit_alias
from marin.executor.egress_meter import EgressMeter
from marin.executor.job import Ending, Job, Outcome, RunSettings
from marin.executor.jobs import Jobs
from marin.executor.other_drivers import RevocationWatch, accept_or_raise
from marin.executor.run_results import Event, Listener, Run, Status
from marin.executor.signals import SIGNALS
from marin.fingerprint.fingerprint import store_code
from marin.plan.decision import Action
from marin.plan.outside_data import keep_listing, listing
from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep
from marin.store.attempts import note_stop
from marin.store.ends import LOOK_SECONDS, Claim, Watch, read_claims
from marin.store.in_use import Uses
from marin.store.record import Record

logger = logging.getLogger(__name__)
POLL_SECONDS = 0.2


class Scheduler:
    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        listener: Listener,
        settings: RunSettings | None = None,
        on_message: Callable[[str], None] = lambda _: None,
        meter: EgressMeter | None = None,
        *,
        keep_going: bool = False,
    ) -> None:
        """listener: called at every change. on_message: receives the reason of each wait. meter: of bytes between
        regions, if steps run in another region. keep_going: also begin steps that only lead to steps broken by a
        failure.
        """
        settings = settings or RunSettings()
        self.plan, self.backend, self.listener = plan, backend, listener
        self.store = plan.store
        self.watch = Watch()  # of other drivers' claims
        self.uses = Uses(self.store, settings.experiment, on_message, self.watch)
        self.revocations = RevocationWatch(self.store, plan.snapshot.records)
        self.run = Run(plan)
        self.todo: dict[ExecutorStep[Any], Action] = {}  # actions of steps that the plan has not settled
        self.left = 0  # steps in todo that are not settled yet
        self.open_inputs: dict[ExecutorStep[Any], int] = {}  # by step, number of dependencies that are not settled
        self.dependents: dict[ExecutorStep[Any], list[ExecutorStep[Any]]] = {}
        self.ready: deque[ExecutorStep[Any]] = deque()
        self.held: set[ExecutorStep[Any]] = set()  # by other drivers
        self.makers: dict[str, ExecutorStep[Any]] = {}  # by action, the step that makes its output
        self.twins: dict[ExecutorStep[Any], list[ExecutorStep[Any]]] = {}  # by maker, steps that wait for its output
        self.useless: dict[ExecutorStep[Any], ExecutorStep[Any]] = {}  # steps without use, with the failed step
        self.meter, self.keep_going = meter, keep_going
        self.milestones: dict[ExecutorStep[Any], list[ExecutorStep[Any]]] = {}  # by the training that publishes them
        self.replaced: dict[ExecutorStep[Any], Record] = {}  # that others committed meanwhile, to be rebuilt
        self.jobs = Jobs(run=self.run, replaced=self.replaced, settings=settings)
        self.next_look, self.started = 0.0, False

    def execute(self) -> Run:
        """Run everything that must run. Returns also if steps failed: see the results.

        Raises the error that stopped the run early. ``run`` then holds the results so far.
        """
        began = time.monotonic()
        self.todo = self.run.begin()
        try:
            if self.todo:
                with self.uses:
                    self._protect_needs()
                    self._link()
                    self._keep_code()
                    self._loop()
                    if self.started:
                        self.backend.stop()
                made = [result.step.identity for result in self.run.having(Status.RAN, Status.ALIAS)]
                self.store.packs.pack(made)
        finally:
            self.run.seconds = time.monotonic() - began
        return self.run

    def _stop(self, error: BaseException) -> None:
        """Stop running steps with the run. That is no failure of the steps."""
        if self.started:
            self.backend.stop()
        why = str(SIGNALS) if isinstance(error, KeyboardInterrupt) else f"stopped: {type(error).__name__}: {error}"
        for step in filter(self._is_open, self.todo):
            self.run.results[step].record = None  # as for a failed step
        for result in self.run.results.values():
            if not (result.wants or result.status is Status.RUNNING):
                continue
            log = note_stop(self.store, result.step.identity, why, self.jobs.after(result.step))
            if log or result.status is Status.RUNNING:
                result.status, result.error, result.log = Status.STOPPED, why, log
                self.listener(Event.STOPPED, result)

    def _protect_needs(self) -> None:
        """Keep gc from deleting what this run needs. Raises StalePlan if something that the plan relies on is gone."""
        needed = {
            *self.todo,
            *self.plan.experiment.results.values(),
            *(read for step in self.todo for read in step.dependencies),
        }
        decisions = [self.plan.of(step) for step in needed]
        there = [each for made in decisions for each in (made.record, made.alias_target) if each is not None]
        code = {today.code.digest for today in self.plan.today.values()}
        code |= {name for step in self.todo if (name := listing(self.plan.today[step].outside))}
        replaced = {
            made.record.attempt for made in decisions if made.record and (made.deleted or made.action is Action.RUN)
        }
        identities, whole = (step.identity for step in needed), self.plan.experiment.whole
        self.uses.add(there, identities, code, whole=whole, replaced=replaced)

    def _keep_code(self) -> None:
        for code in {today.code.digest: today.code for today in self.plan.today.values()}.values():
            store_code(self.store, code.digest, code.to_json(sources=True))
        for step in self.todo:
            keep_listing(self.store, self.plan.today[step].entries)

    def _link(self) -> None:
        for step in self.todo:
            unfinished = [dependency for dependency in step.dependencies if dependency in self.todo]
            self.open_inputs[step] = len(unfinished)
            for dependency in unfinished:
                self.dependents.setdefault(dependency, []).append(step)
            if not unfinished:
                self.ready.append(step)
            if step.producer is not None:
                self.milestones.setdefault(step.producer, []).append(step)
        self.left = len(self.todo)

    def _loop(self) -> None:
        try:
            while self.left:
                if self.ready:
                    self._consider(self.ready.popleft())
                elif time.monotonic() >= self.next_look:
                    self.next_look = time.monotonic() + LOOK_SECONDS
                    self._look_at_held()
                    self._look_at_milestones()
                elif self.started:
                    for job, outcome in self.backend.wait(POLL_SECONDS):
                        self._ended(job, outcome)
                else:
                    time.sleep(POLL_SECONDS)  # other drivers hold all remaining steps
        except BaseException as error:
            self._stop(error)
            raise

    def _is_open(self, step: ExecutorStep[Any]) -> bool:
        return self.run.results[step].status in (Status.WAITING, Status.RUNNING)

    def _look_at_milestones(self) -> None:
        """Settle milestones that a running step has committed, so that their dependents can start."""
        for producer, milestones in self.milestones.items():
            if producer in self.todo and self.run.results[producer].status is Status.RUNNING:
                for step in filter(self._is_open, milestones):
                    self._take_published(step)

    def _consider(self, step: ExecutorStep[Any]) -> None:
        """Start or settle a step whose dependencies are all settled."""
        if not self._is_open(step) or (step.producer is not None and self._take_published(step)):
            return
        needs = (self.run.results[dependency] for dependency in step.dependencies)
        broken = next((need for need in needs if need.status in (Status.FAILED, Status.SKIPPED)), None)
        if broken is not None:
            cause = broken.reason if broken.status is Status.SKIPPED else f"{broken.step.name} failed"
            return self._settle(step, Status.SKIPPED, cause)
        if step in self.useless:
            return self._settle(step, Status.SKIPPED, f"no result needs it: {self.useless[step].name} failed")
        result = self.run.results[step]
        if self.todo[step] is Action.RECHECK and result.record is not None and not self.plan.of(step).deleted:
            if self._inputs_unchanged(step, result.record):
                return self._settle(step, Status.CACHED, "its inputs were rebuilt with the same bytes")
            result.reason = "an input has other bytes now"
        self._begin(step)

    def _begin(self, step: ExecutorStep[Any], dead_claim: tuple[int, int] | None = None) -> None:
        """Share an output of the same action, or send a job. Every input exists."""
        result, pinned = self.run.results[step], self.plan.of(step).alias_target if step.pin is not None else None
        milestones = filter(self._is_open, self.milestones.get(step, ()))
        job = replace(self.jobs.of(step, milestones), dead_claim=dead_claim)
        try:
            self.revocations.must_trust(step, (*job.inputs.values(), *([pinned] if pinned is not None else [])))
            if self._is_shared(job) or self._waits_for_twin(job):
                return
            if self.meter is not None:
                self.meter.begin(job)
        except MarinError as error:
            result.error = f"{type(error).__name__}: {error}"
            return self._settle(step, Status.FAILED, result.reason)
        if self.todo[step] is Action.RECHECK and result.record is None:
            result.reason = "an input has other bytes than before"
        if not self.started:
            self.started = True
            self.backend.start([each for each in self.todo if self._is_open(each)], self._hear)
        logger.debug("%s is sent to %s", step.name, type(self.backend).__name__)
        self.backend.submit(job)

    def _hear(self, job: Job, wants: str) -> None:
        """Note that a job waits for resources, or that an attempt has started if it wants nothing more."""
        result = self.run.results[job.step]
        result.status, result.wants = Status.WAITING if wants else Status.RUNNING, wants
        self.listener(Event.QUEUED if wants else Event.STARTED, result)

    def _is_shared(self, job: Job) -> bool:
        """Settle a step that an output of the same action can serve, or wait for the driver that holds it."""
        step, decision = job.step, self.plan.of(job.step)
        original, acceptance = decision.alias_target, None
        if decision.forced or (original is None and not self.plan.snapshot.actions):
            return False
        if step.pin is None:
            original, acceptance = self.plan.aliases.find(step, job.action) or (None, None)
        if original is None or self.revocations.untrusted(original):
            return False
        try:
            self.uses.add([original])
        except StalePlan:
            return False
        made = commit_alias(job, original, acceptance, self.store)
        if isinstance(made, Claim):
            self._wait_for_holder(step, made.describe())
        elif made.attempt != original.attempt:
            self._take(job, made)
        else:
            self.run.results[step].record = made
            why = f"same action and input bytes as {original.name} {original.identity[:12]}"
            if step.pin is not None:
                why = f"pinned: {original.attempt}, every byte is right"
            self._settle(step, Status.ALIAS, why)
        return True

    def _waits_for_twin(self, job: Job) -> bool:
        """Let one of two steps with the same action and input bytes make the output for both."""
        step = job.step
        if not job.action or job.milestones or self.plan.of(step).forced:
            return False
        if (maker := self.makers.setdefault(job.action, step)) != step:
            self.twins.setdefault(maker, []).append(step)
        return maker != step

    def _wait_for_holder(self, step: ExecutorStep[Any], holder: str) -> None:
        result = self.run.results[step]
        result.status, result.reason = Status.WAITING, holder
        self.held.add(step)
        self.listener(Event.HELD, result)

    def _inputs_unchanged(self, step: ExecutorStep[Any], record: Record) -> bool:
        if step.producer is not None:
            return self.run.results[step.producer].status in (Status.CACHED, Status.ALIAS)
        now = self.jobs.inputs(step.dependencies)
        return all(read.identity in now and now[read.identity].root == read.root for read in record.inputs)

    def _take_published(self, step: ExecutorStep[Any]) -> bool:
        """Settle a milestone that its producer has committed; False if there is none to use."""
        record = self.store.record(step.identity, self.jobs.after(step))
        if record is None:
            return False
        training = step.producer.dependencies if step.producer is not None else ()
        inputs = self.jobs.inputs((*step.dependencies, *training))
        self.run.results[step].seconds = record.provenance.seconds
        return self._is_settled_by(step, record, inputs, Status.RAN, "published by its training run")

    def _take(self, job: Job, record: Record) -> None:
        """Use a record that another driver committed meanwhile, or rebuild the step."""
        reason = "another driver made it meanwhile"
        if not self._is_settled_by(job.step, record, job.inputs, Status.CACHED, reason):
            self._begin(job.step)

    def _is_settled_by(
        self, step: ExecutorStep[Any], record: Record, inputs: dict[str, Record], status: Status, reason: str
    ) -> bool:
        """Use another driver's output, or fail if a person must decide. False if the step must be rebuilt."""
        result = self.run.results[step]
        try:
            if accept_or_raise(self.plan, self.revocations, step, record, inputs):
                result.record = record
                self.plan.aliases.add(record)
                self._settle(step, status, reason)
                return True
        except PlanError as error:
            result.error, result.undecided = f"{type(error).__name__}: {error}", True
            self._settle(step, Status.FAILED, result.reason)
            return True
        for made in (step, *self.milestones.get(step, ())):
            if (there := self.store.record(made.identity)) is not None:
                self.replaced[made] = there
        result.reason = f"drifted: made meanwhile by {record.provenance.who} with other code or from other inputs"
        return False

    def _look_at_held(self) -> None:
        """Begin steps whose attempt has ended, or whose holder is dead."""
        claims = read_claims(self.store.objects, {step.identity: self.jobs.after(step) for step in self.held})
        for step in list(self.held):
            dead = None
            if (claim := claims.get(step.identity)) is not None:
                if not self.watch.is_dead(step.identity, claim):
                    if not self.run.results[step].reason.endswith(holder := claim.describe()):
                        self._wait_for_holder(step, holder)  # another driver took it over meanwhile
                    continue
                dead = (claim.number, claim.beat)
            self.held.discard(step)
            self._begin(step, dead)

    def _ended(self, job: Job, outcome: Outcome) -> None:
        result = self.run.results[job.step]
        if self.meter is not None:
            self.meter.end(job, outcome)
        if outcome.log and result.wants:
            self._hear(job, "")  # it ended before anybody saw it begin
        result.wants = ""
        if outcome.ending is Ending.HELD:
            return self._wait_for_holder(job.step, outcome.held_by)
        again = {Ending.PREEMPTED: Event.PREEMPTED, Ending.LOST: Event.RETRIED}.get(outcome.ending)
        if again is Event.RETRIED and not result.may_begin_again(outcome.began_at):
            again, why = None, f"{result.losses} attempts lost a process; the last one: {outcome.error}"
            outcome = replace(outcome, error=why)
        if again is not None:
            result.status, result.error, result.log = Status.WAITING, outcome.error, outcome.log
            self.listener(again, result)
            result.error = ""
            return self._begin(job.step)
        result.seconds, result.log, result.error = outcome.seconds, outcome.log, outcome.error
        if outcome.record is None:
            self._settle(job.step, Status.FAILED, result.reason)
        elif outcome.ending is Ending.CACHED:
            self._take(job, outcome.record)
        else:
            result.record = outcome.record
            self.plan.aliases.add(outcome.record)
            self._settle(job.step, Status.RAN, result.reason)

    def _settle(self, step: ExecutorStep[Any], status: Status, reason: str) -> None:
        result = self.run.results[step]
        result.status, result.reason = status, reason
        if status in (Status.FAILED, Status.SKIPPED):
            result.record = None  # an old record must not pass for today's
        logger.debug("%s: %s, %s", step.name, status, result.error or reason)
        if step in self.twins:
            self.makers = {action: maker for action, maker in self.makers.items() if maker != step}
            self.ready.extend(self.twins.pop(step))
        self.left -= 1
        for dependent in self.dependents.get(step, ()):
            self.open_inputs[dependent] -= 1
            if not self.open_inputs[dependent]:
                self.ready.append(dependent)
        self.listener(Event.ENDED, result)
        if status is Status.FAILED and not self.keep_going:
            self.useless |= dict.fromkeys(filter(self._is_open, self._useless(step)), step)

    def _useless(self, failed: ExecutorStep[Any]) -> list[ExecutorStep[Any]]:
        """Return the steps that only lead to unsettled steps that cannot be made, because they need the failed one."""
        steps = [decision.step for decision in self.plan.decisions]  # dependencies first
        broken = {failed}
        for step in steps:
            if step in self.todo and not broken.isdisjoint(step.dependencies):
                broken.add(step)
        needed = self.jobs.results - broken
        for step in reversed(steps):
            if step in needed:
                needed.update(step.dependencies)
        return [step for step in steps if step not in needed and step not in broken]
