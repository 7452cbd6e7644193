"""Duties beside the processing: reaping, partitions, unserved types, statistics.

Every worker does them; each is written so that doing it twice does no harm.
"""
