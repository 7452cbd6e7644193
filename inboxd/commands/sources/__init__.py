"""Sources of commands: `lanes`, `limited` (queues with limits, and ordering keys), `suspects`.

Each is a `source`. `limited` finds keys by `key_finder`, and the commands of a key that it leases
together run one after the other, by `key_runs`.
"""
