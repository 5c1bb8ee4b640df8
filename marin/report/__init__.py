"""What people read: terminal, page, diff, audit, status, explanations. Decides nothing and changes no output.

Enters: plans, runs, records. Leaves: text, tables and one HTML page for each experiment.
"""
