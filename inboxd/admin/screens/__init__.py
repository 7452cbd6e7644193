"""The screens: pages for the people who operate an inbox, each also as JSON.

A page is a `Screen` (`screen.py`): a path, the role that may see it, and a function that reads what
it shows; `pages/` has them, a module for each subject. `application` answers a request: who visits
(`access`), on which session, as HTML (`rendering`, `templates/`, `texts/`) or JSON. `snapshot` is
what all visitors of a process share, so that a page that is kept open costs nothing while nothing
changes. ADR 35.
"""
