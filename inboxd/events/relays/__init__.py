"""Relays: events that are published page by page, with no transaction open meanwhile."""
