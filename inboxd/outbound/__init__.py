"""HTTP requests of inboxd: to targets, within limits, and never to a forbidden address.

The handlers here are written like a plugin's; `inboxd/registry/plugins.py` adds them to the
plugins' handlers if the settings use them.
"""
