"""Relays: events are published page by page, and no transaction is open meanwhile."""
