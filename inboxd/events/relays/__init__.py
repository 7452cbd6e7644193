"""Relays: they publish events page by page, without an open transaction."""
