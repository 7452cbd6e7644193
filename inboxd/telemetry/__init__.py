"""Telemetry: metrics, logs, the loop monitor, and notifications to the service manager."""
