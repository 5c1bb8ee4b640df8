"""The experiments: one file for each question of a GitHub issue."""
