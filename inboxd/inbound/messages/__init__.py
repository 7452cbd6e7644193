"""Messages in: a broker's messages become durable events, and are acknowledged only then.

`source` runs a source, through outages of its broker or the database; `reading` reads from one
consumer; `compiled` makes events of a message; `streams` knows which messages of a stream are
stored; `storing` stores a page. `verifying` compares all that with the brokers' contents.
"""
