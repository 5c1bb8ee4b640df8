"""Steps on their way to workers."""

from __future__ import annotations

import pickle

from marin.executor.backends.step_pickles import Unpacked, addressed, packed
from marin.executor.job import Job
from tests.support.toy import Join, Write


def sent(job: Job, *todo: object) -> Job:
    parcels = packed(todo)  # pyright: ignore[reportArgumentType]
    return Unpacked(pickle.loads(pickle.dumps(parcels))).job(pickle.loads(pickle.dumps(addressed(job))))


def job_of(step: Join) -> Job:
    return Job(prefix="memory://x", step=step, code="", packages={}, outside={}, inputs={}, replaces="")


def test_a_step_arrives_with_all_that_it_holds() -> None:
    a, b = Write(text="a", label="first"), Write(text="b")
    step = Join(parts=(a, Join(parts=(a, b))), separator="-", label="j")
    arrived = sent(job_of(step), step).step
    assert isinstance(arrived, Join)
    assert (arrived.identity, arrived.label, arrived.separator) == (step.identity, "j", "-")
    first, second = arrived.parts
    assert isinstance(second, Join)
    assert first is second.parts[0]
    assert (first.label, first.dependencies, arrived.dependencies) == ("first", (), step.dependencies)


def test_of_equal_steps_the_one_that_runs_arrives() -> None:
    held, run = Write(text="a", label="as its reader calls it"), Write(text="a", label="as the plan does")
    step = Join(parts=(held,))
    assert sent(job_of(step), step, run).step.dependencies[0].label == "as the plan does"


def test_a_chain_of_thousands_is_packed_in_as_many_small_parcels() -> None:
    chain = Join(parts=(Write(text="a"),))
    for _ in range(3000):
        chain = Join(parts=(chain,))
    parcels = packed([chain])
    assert max(len(parcel.content) for parcel in parcels.values()) < 2000
    assert sent(job_of(chain), chain).step == chain
