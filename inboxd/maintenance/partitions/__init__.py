"""Partitions of history: made days ahead, kept, exported, removed."""
