"""What a step reads and runs while it runs, heard by an audit hook, and whose code it was."""
