"""Exit codes (docs/exit-codes.md), and the function that turns marin's own errors into a message and a code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of experiment files and of all commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    DRIFT = 3
    EXPERIMENT = 4
    STORE = 5
    EGRESS = 6
    ILL = 7
    HUNG_UP = 129
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


def guarded(work: Callable[[], int]) -> int:
    """Run ``work`` and return the exit code. Print marin's own errors as one message instead of a traceback."""
    import click

    from marin import errors
    from marin.executor.signals import SIGNALS
    from marin.executor.verbosity import log_as_asked

    try:
        log_as_asked()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names need not be UTF-8, nor may a terminal know all letters
            stream.reconfigure(errors="backslashreplace")
    SIGNALS.install()
    try:
        code = work()
        sys.stdout.flush()  # notices here that the reader left, not while Python ends
        return code
    except errors.MarinError as error:
        complain(error)
        if isinstance(error, errors.Drift | errors.Revoked):
            return Exit.DRIFT
        if isinstance(error, errors.EgressOverBudget):
            return Exit.EGRESS
        if isinstance(error, errors.ExperimentError | errors.PlanError | errors.StarvedSource | errors.TooManyEpochs):
            return Exit.EXPERIMENT
        return Exit.STORE if isinstance(error, errors.StoreError) else Exit.FAILED
    except BrokenPipeError:
        # `marin ls | head`: the reader left, which is no error worth a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.PIPE_CLOSED
    except KeyboardInterrupt:
        print(f"{SIGNALS}; committed outputs stay, and the next run continues from them", file=sys.stderr)
        return 128 + SIGNALS.number
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise  # wrong usage, which click reports
    except Exception as error:  # not one of marin's errors, or a bug: print the traceback, as Python would
        import traceback

        from marin.store.redaction import redacted

        if (missing := errors.missing_dependency(error)) is not None:
            complain(missing)
            return Exit.FAILED
        sys.stderr.write(redacted("".join(traceback.format_exception(error))))
        return Exit.FAILED


def complain(error: Exception) -> None:
    """Print ``Kind: message`` on stderr."""
    from rich.text import Text

    from marin.report.table import open_console, say
    from marin.store.redaction import redacted

    console = open_console(stderr=True)
    text = Text.assemble((type(error).__name__, "red bold"), f": {redacted(str(error))}")
    console.print(text, soft_wrap=True)
    for note in getattr(error, "__notes__", ()):
        say(console, redacted(note), "dim")
