"""A shop that reviews the orders of suspect users: the example of single events."""
