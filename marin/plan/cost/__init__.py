"""What a plan costs before it runs: tokens, chip-hours, bytes read, written and moved between regions."""
