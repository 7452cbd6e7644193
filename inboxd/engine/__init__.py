"""What events and commands share: the processor's loop, wake-ups, lease, execution of handlers.

Owns what is the same for both between a wake-up and a settlement. Known limit: which rows come, and
what a page of them is, is for `inboxd.events` and `inboxd.commands`; it knows neither.
"""
