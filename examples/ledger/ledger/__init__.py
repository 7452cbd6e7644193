"""A bank that reports its days: the example of lists."""
