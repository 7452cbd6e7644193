"""Brokers: publishes messages to them, and consumes messages from them."""
