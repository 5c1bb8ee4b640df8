"""The cost of a plan before it runs: tokens, chip-hours, bytes read, written and moved between regions."""
