"""``marin``, and the command line of every experiment file.

Each command has a module of the same name with a ``command``; ``commands`` lists the commands. A command takes a
command line, prints text, or JSON with --json, and returns an exit code (docs/exit-codes.md). It decides nothing: it
asks plan, executor, report and upkeep, and shows their answers.
"""
