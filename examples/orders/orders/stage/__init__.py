"""The other side of the settings in `sources.toml`: the services of users and of products."""
