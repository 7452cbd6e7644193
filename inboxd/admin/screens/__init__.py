"""The screens: pages for the people who operate an inbox, each also as JSON.

`application` answers a request. All visitors of a process share a `snapshot`, so that an open page
costs nothing while nothing changes. ADR 35.
"""
