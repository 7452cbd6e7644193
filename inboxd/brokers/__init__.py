"""Brokers: publishes messages to them, and consumes messages from them.

`contract` has the interfaces; `cloud_events` writes and reads CloudEvents; `kafka`, `nats` and
`rabbitmq` are built in, each imported only when the settings ask for it; `kinds` finds a broker's
module by its kind.
"""
