"""Code that the demos of the examples share."""
