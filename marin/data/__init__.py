"""Everything between text and trainer: document shards, token stores, permutations, mixtures."""
