"""What charts measure, by the names that people type.

*See:* `operations/charts.py`, which says what each is made of.
"""

from typing import Literal

# Rows, in each step.
Counted = Literal["succeeded", "failed", "retried", "arrivals"]
# Seconds: a percentile of each step.
Timed = Literal["run-time", "wait-time", "completion-time"]
# What samples saw: rows, and the age of the oldest one that was due.
Sampled = Literal["backlog", "dead-letters", "oldest"]
Measure = Literal[Counted, Timed, Sampled]
Rank = Literal["p50", "p95", "p99"]
