"""A school that mails its students: the example of a plugin."""
