"""Maintenance beside the processing: dead workers, partitions, unhandled rows, samples.

Each task runs on every worker, or only on the leader, and does no harm if it runs twice.
"""
