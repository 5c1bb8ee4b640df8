"""``python -m marin.cli``."""

from marin.cli.commands import main

main(prog_name="marin")
