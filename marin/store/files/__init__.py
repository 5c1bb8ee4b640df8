"""Files of outputs on an object store: streamed, staged on this machine, hashed once, cached by content."""
