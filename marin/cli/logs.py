"""``marin logs``."""

from __future__ import annotations

import time

import click

from marin.cli.completions import complete_attempt
from marin.cli.exits import Exit
from marin.cli.options import JSON, LATEST, PREFIX, echo_json
from marin.cli.parameters import argument, command_line, flag, option
from marin.errors import UnknownStep
from marin.report.table import open_console
from marin.store.attempts import Attempt, AttemptStatus, attempts_called, standing
from marin.store.redaction import redacted
from marin.store.store import Store, open_store

LOOK_SECONDS = 0.5


@command_line()
def command(
    step: str = argument(complete=complete_attempt),
    follow: bool = flag("-f", "--follow", "Go on printing until the attempt ends."),
    number: int | None = option("--attempt", "Attempt number N instead of the last.", type=int, metavar="N"),
    lines: int | None = option("-n", "--lines", "Only the last N lines.", type=click.IntRange(min=0)),
    latest: bool = LATEST,
    prefix: str = PREFIX,
    as_json: bool = JSON,
) -> int:
    """Print the log of a step's last attempt: running, failed or committed.

    STEP is op/label, label, identity or path.
    """
    store = open_store(prefix)
    attempts = attempts_called(store, step, latest=latest)
    attempt = attempts[-1] if number is None else next((each for each in attempts if each.token == number), None)
    if attempt is None:
        there = ", ".join(str(each.token) for each in attempts)
        raise UnknownStep(f"{step} has no attempt {number}; there are {there}")
    state, about = standing(store, attempt)
    text = _text(store, attempt)
    every = text.splitlines(keepends=True)
    shown = every if lines is None else every[max(len(every) - lines, 0) :]
    if as_json:
        echo_json(
            {
                "step": attempt.name,
                "identity": attempt.short,
                "attempt": attempt.token,
                "attempts": [each.token for each in attempts],
                "standing": state,
                "about": about,
                "log": f"{store.prefix}/{attempt.log}",
                "lines": "".join(shown).splitlines(),
            }
        )
        return Exit.OK
    console = open_console(stderr=True)  # stdout is for the log alone
    others = f", {len(attempts)} attempts" if len(attempts) > 1 else ""
    console.print(f"{attempt.name} {attempt.short} attempt {attempt.token}{others}: {state} {about}", style="dim")
    click.echo("".join(shown), nl=False)
    if follow:
        _follow(store, attempt, len(text))
        state, about = standing(store, attempt)
        console.print(f"{attempt.name} {attempt.short} attempt {attempt.token}: {state} {about}", style="dim")
    return Exit.OK


def _text(store: Store, attempt: Attempt) -> str:
    return redacted(store.objects.read_log(attempt.log).decode(errors="replace"))  # an old log may hold secrets


def _follow(store: Store, attempt: Attempt, seen: int) -> None:
    """Print new text until the attempt has ended and everything is printed."""
    while True:
        running = standing(store, attempt)[0] is AttemptStatus.RUNNING  # asked before the text is read
        text = _text(store, attempt)
        if len(text) > seen:
            click.echo(text[seen:], nl=False)
            seen = len(text)
        if not running:
            return
        time.sleep(LOOK_SECONDS)
