"""What an experiment's page shows of each operator, in modules of the same names."""
