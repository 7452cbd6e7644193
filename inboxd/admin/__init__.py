"""The HTTP face: metrics and health."""
