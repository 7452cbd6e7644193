"""Webhooks out: the endpoints that get them, and their deliveries."""
