"""Commands: leased in pages, run concurrently, settled one by one (`processing`, `runners`).

`sources` holds the places from which they are leased. The package imports nothing from
`inboxd.events`, and the reverse.
"""
