"""Chunks of batch topics: makes, runs, halves and settles them."""
