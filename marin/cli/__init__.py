"""``marin``, and the command line of every experiment file.

One module for each command, named after it, holding a ``command``; ``commands`` lists them. Enters: what somebody
types. Leaves: text, or JSON with --json, and an exit code (docs/exit-codes.md). A command decides nothing: it asks
plan, executor, report and upkeep, and shows what they say.
"""
