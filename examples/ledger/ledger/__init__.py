"""A bank that reports its days: the example of chunks."""
