"""The HTTP face: metrics and health now, for people later."""
