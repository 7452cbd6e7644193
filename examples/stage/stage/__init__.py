"""What the demos of the examples share."""
