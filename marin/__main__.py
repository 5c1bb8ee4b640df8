"""``python -m marin`` is ``marin``."""

from marin.cli.commands import main

main(prog_name="marin")
