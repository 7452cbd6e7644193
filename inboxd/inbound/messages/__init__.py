"""Messages in: a broker's messages become durable events, and are acknowledged only then.

`source` runs a source, through outages of its broker or the database; `reading` reads from one
consumer; `compiled` makes events of a message; `streams` knows the stored messages of a stream;
`storing` stores a page. `verifying` compares the stored messages with the brokers' contents.
"""
