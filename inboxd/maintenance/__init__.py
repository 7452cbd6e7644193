"""Maintenance beside the processing: each task does no harm if it runs twice."""
