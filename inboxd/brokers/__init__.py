"""Brokers: how messages are published to one, and consumed from it.

`contract` says what a broker does for us; `cloud_events` how an event is written and read; `kafka`,
`nats` and `rabbitmq` are what is built in, each imported only when the settings ask for it; `kinds`
finds the one of a name.
"""
