"""Maintenance beside the processing: dead workers, partitions, unhandled rows, statistics.

Every worker does it, or the leader alone; each task is written so that doing it twice does no harm.
"""
