"""Webhooks out: their endpoints, and the deliveries to them."""
