"""Webhooks out: the endpoints that receive them, and their deliveries."""
