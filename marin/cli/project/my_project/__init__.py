"""Code that the experiments share."""
