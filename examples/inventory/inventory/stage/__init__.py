"""The other side of the settings in `rabbitmq.toml`: the event bus."""
