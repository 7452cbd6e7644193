"""For frameworks: each package here belongs to one, which it needs installed (an extra)."""
