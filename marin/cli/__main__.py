"""``python -m marin.cli``."""

from marin.cli import main

main(prog_name="marin")
