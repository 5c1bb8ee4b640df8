"""Find the failure that caused the failures of other hosts."""

from __future__ import annotations

from collections.abc import Mapping

from marin.errors import MarinError, Preempted, ProcessAborted, ProcessLost, StepFailed, TrainingFailed
from marin.steps.resources import Host


def reason(failures: Mapping[Host, BaseException]) -> BaseException:
    """Return the causing failure with its host, followed by the errors of the other hosts.

    Other hosts fail with a broken connection (TrainingFailed, or StepFailed outside training), and JAX aborts a process
    that has lost the first host. A failure that explains itself therefore comes before both.
    """
    host, error = min(failures.items(), key=lambda each: _precedence(each[1]))
    if host.count == 1 or not isinstance(error, MarinError):
        return error
    others = [f"\n{other}: {_line(said)}" for other, said in failures.items() if other != host]
    return type(error)(f"{host}: {error}{''.join(others)}")


def _precedence(error: BaseException) -> int:
    if isinstance(error, Preempted):
        return 0
    if isinstance(error, ProcessAborted):
        return 3
    if isinstance(error, ProcessLost):
        return 1
    return 2 if isinstance(error, MarinError) and not isinstance(error, TrainingFailed | StepFailed) else 4


def _line(error: BaseException) -> str:
    kind, text = type(error).__name__, str(error).strip()
    return f"{kind}: {text.splitlines()[0]}" if text else kind
