"""``python experiments/exp….py``: the command line of an experiment file. Importing it loads almost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from marin.executor.backends.backend import Backend
    from marin.steps.experiment_file import Build


def executor_main(build: Build, arguments: Sequence[str] | None = None, *, backend: Backend | None = None) -> None:
    """Run the command line of an experiment file, and end the process. Exit codes are in docs/exit-codes.md.

    arguments: arguments of the command, without its name; None for the arguments of this process. backend: runs the
    steps instead of the one that ``--backend`` names. ``InlineBackend()`` runs them in this process, for a profiler.
    """
    from marin.cli.parameters import all_of, command_line
    from marin.cli.run import run_experiment
    from marin.cli.run_options import RunOptions
    from marin.steps.experiment_file import importable, source_of

    source = source_of(build)

    @command_line(text=f"Plan and run {source.name}.")
    def command(options: RunOptions = all_of(RunOptions)) -> int:
        return run_experiment(importable(build), source, options, backend)

    command.main(args=list(arguments) if arguments is not None else None, prog_name=source.name)


def say_errors_plainly() -> None:
    """Report marin's errors in an experiment file as commands do, if Python runs the file and importing it fails."""
    import sys

    def say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, Exception):
            # An import here would run code. Python would then exit with 1 instead of ending by SIGINT.
            sys.__excepthook__(kind, error, trace)
            return
        from pathlib import Path

        from marin.cli.exits import guarded
        from marin.errors import MarinError
        from marin.steps.experiment_file import explained

        def again() -> int:
            with explained(Path(getattr(sys.modules["__main__"], "__file__", None) or "-").absolute()):
                raise error.with_traceback(trace)

        if issubclass(kind, MarinError):
            sys.exit(guarded(again))
        sys.__excepthook__(kind, error, trace)

    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = say
