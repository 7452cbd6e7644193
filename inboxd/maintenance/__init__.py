"""Maintenance beside the processing: dead workers, partitions, unhandled rows, samples.

Each task is run by every worker or by the leader alone, and does no harm if it runs twice.
"""
