"""What runs: plugins, processors, executors, lease and wake-ups.

Owns the life of a row between its claim and its settlement.
"""
