"""Read a Python file without running it: its definitions, the names that each uses, and the text that counts."""
