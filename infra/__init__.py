"""Where it runs: the hardware table and what is generated from it."""
