"""Test which failure marin names when several hosts fail."""

import pytest

from marin.errors import MarinError, Preempted, ProcessAborted, ProcessLost, StoreFull, TrainingFailed
from marin.executor.backends.gang import reason
from marin.steps.resources import Host

FIRST, SECOND = (Host(number=number, count=2, meeting="here:1") for number in range(2))
BROKEN = TrainingFailed("JaxRuntimeError: Connection closed by peer")
ABORTED = ProcessAborted("killed by signal 6")


@pytest.mark.parametrize(
    ("first", "second", "kind", "begins"),
    [
        # The first host fails, and JAX aborts the other host, which has lost the first.
        (StoreFull("the disk is full"), ABORTED, StoreFull, "host 0 of 2: the disk is full"),
        # Nobody can tell which host failed first. marin names the failure that it retries.
        (BROKEN, ABORTED, ProcessAborted, "host 1 of 2: killed by signal 6"),
        (BROKEN, ProcessLost("killed by signal 9"), ProcessLost, "host 1 of 2: killed by signal 9"),
        (StoreFull("full"), ProcessLost("killed by signal 9"), ProcessLost, "host 1 of 2: killed by signal 9"),
        (Preempted("SIGTERM"), ProcessLost("killed by signal 9"), Preempted, "host 0 of 2: SIGTERM"),
        (BROKEN, Preempted("its machine is gone"), Preempted, "host 1 of 2: its machine is gone"),
    ],
)
def test_the_failure_that_explains_the_others_is_named_and_theirs_behind_it(
    first: MarinError, second: MarinError, kind: type[MarinError], begins: str
) -> None:
    named = reason({FIRST: first, SECOND: second})
    assert type(named) is kind
    line, other = str(named).splitlines()
    assert line == begins
    unnamed = first if named.args[0].startswith("host 1") else second
    assert other.endswith(f"of 2: {type(unnamed).__name__}: {unnamed}")


def test_what_is_no_error_of_ours_comes_as_it_is() -> None:
    error = ValueError("no")
    assert reason({FIRST: error}) is error
