"""Sources of commands: `lanes`, `limited` (queues with limits, and ordering keys), `suspects`.

Each implements `source`. `limited` finds keys with `key_finder`; commands of one key that it leases
together run one after the other, by `key_runs`.
"""
