"""Logging of marin's own work, by Python's ``logging``: off, unless ``MARIN_LOG`` names a level.

Loggers are named after their modules (``marin.store.ends``), so that a program that uses marin as a library configures
them like those of any other package.
"""

from __future__ import annotations

import logging
import os
import sys

from marin.store.redaction import redacted

VARIABLE = "MARIN_LOG"
LEVELS = ("debug", "info", "warning", "error")


class _ToStderr(logging.Handler):
    """Writes to the current stderr, without credentials. A progress bar or a step's log may have replaced it."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(redacted(self.format(record)) + "\n")
        sys.stderr.flush()


def log_as_asked() -> None:
    """Send log lines of the level in MARIN_LOG and above to stderr, from now on.

    Raises ValueError if MARIN_LOG names no level.
    """
    asked = os.environ.get(VARIABLE, "").lower()
    if not asked:
        return
    if asked not in LEVELS:
        raise ValueError(f"{VARIABLE} is {asked!r}; wanted {', '.join(LEVELS)}, or nothing for silence")
    logger = logging.getLogger("marin")
    logger.setLevel(asked.upper())
    if not any(isinstance(handler, _ToStderr) for handler in logger.handlers):
        handler = _ToStderr()
        handler.setFormatter(
            logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
        )
        logger.addHandler(handler)
        logger.propagate = False  # a handler of the program's own would repeat the line
