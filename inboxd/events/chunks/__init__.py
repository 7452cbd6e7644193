"""Chunks of batch topics: how they are made, run, halved and settled."""
