"""One Python file, read but not run: its definitions, the names that each uses, and the text that counts of each."""
