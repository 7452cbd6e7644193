"""An office that converts documents: the example of work that takes long, or too long."""
