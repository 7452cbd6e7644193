"""Duties beside the processing: reaping, partitions, what nobody serves or handles, statistics.

Every worker does them; each is written so that doing it twice does no harm.
"""
