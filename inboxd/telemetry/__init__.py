"""Telemetry: metrics, logs, the loop monitor, and what the service manager is told."""
