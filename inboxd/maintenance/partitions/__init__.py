"""Partitions of history: makes them days ahead, keeps, exports and removes them."""
