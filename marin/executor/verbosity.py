"""What marin says of its own work, by Python's ``logging``: nothing, unless ``MARIN_LOG`` names a level.

Loggers are called after their modules (``marin.store.lease``), so that a program that uses marin as a library sets them
up like any other package's.
"""

from __future__ import annotations

import logging
import os
import sys

from marin.store.redaction import redacted

VARIABLE = "MARIN_LOG"
LEVELS = ("debug", "info", "warning", "error")


class _ToStderr(logging.Handler):
    """To where stderr is now: a progress bar, or the log of a step, may have it meanwhile. Without credentials."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(redacted(self.format(record)) + "\n")
        sys.stderr.flush()


def log_as_asked() -> None:
    """From now on, lines of the level that MARIN_LOG names, and above, go to stderr.

    Raises ValueError if it names something else.
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
        logger.propagate = False  # a handler of the program's own would say it again
