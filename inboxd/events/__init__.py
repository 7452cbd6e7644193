"""Events: pages that are claimed, run and settled in one transaction (`page`).

`sources` claims pages; `chunks` processes batch topics; `relays` publish to brokers. The package
imports nothing from `inboxd.commands`, and the reverse.
"""
