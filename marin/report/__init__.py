"""Everything that people read: terminal, page, diff, audit, status, explanations.

It decides nothing and changes no output.

In: plans, runs, records. Out: text, tables and one HTML page for each experiment.
"""
