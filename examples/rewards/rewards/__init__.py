"""A loyalty programme: the example of sequential events."""
