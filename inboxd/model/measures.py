"""Names of the measures that charts show."""

from typing import Literal

# Rows, in each step.
Counted = Literal["succeeded", "failed", "retried", "arrivals"]
# Seconds: a percentile of each step.
Timed = Literal["run-time", "wait-time", "completion-time"]
# From samples: rows, and the age of the oldest due row.
Sampled = Literal["backlog", "dead-letters", "oldest"]
Measure = Literal[Counted, Timed, Sampled]
Rank = Literal["p50", "p95", "p99"]
