"""Tasks, scoring, prompt formats and the statistics that a decision rests on."""
