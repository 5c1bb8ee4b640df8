"""What a page shows of each operator's output: a module named after the operator's own; see marin.report.section."""
