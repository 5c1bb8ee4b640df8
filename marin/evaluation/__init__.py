"""Evaluation: tasks, prompt formats, scoring, and the statistics behind a decision."""
