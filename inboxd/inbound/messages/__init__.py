"""Messages in: from a broker to events that are durable, and only then acknowledged.

`source` is the life of a source, however often its broker or the database goes away; `reading`
reads from one consumer; `compiled` makes events of a message; `streams` knows what of a stream is
stored; `storing` stores a page. `verifying` compares all that with what brokers have.
"""
