"""HTTP requests of inboxd: to targets, within limits, and never to a forbidden address."""
