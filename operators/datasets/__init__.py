"""The catalogue: where each named source comes from, at full scale and in a rehearsal."""
