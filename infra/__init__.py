"""The hardware table, and cluster definitions that marin generates from the table."""
