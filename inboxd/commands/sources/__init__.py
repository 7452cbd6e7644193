"""Where commands come from: `lanes`, `limited` (queues with limits, and ordering keys), `suspects`.

Each is a source (`source`). `limited` finds keys by `key_finder`, and what it leases of a key runs
in a row by `key_runs`.
"""
