"""Integrations with frameworks: each package needs its framework installed (an extra)."""
