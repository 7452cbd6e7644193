"""The screens: pages for the people who operate an inbox, each also as JSON.

A page is a `Screen` (`screen.py`): a path, the role that may see it, and a function that reads its
contents; `pages/` has them, a module for each subject. `application` answers a request: it finds
the visitor (`access`), opens a session, and renders HTML (`rendering`, `templates/`, `texts/`) or
JSON. All visitors of a process share a `snapshot`, so that an open page costs nothing while nothing
changes. ADR 35.
"""
