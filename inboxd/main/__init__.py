"""The program `inboxd`: `app` assembles its command line, from `cli` and from each feature.

Here are also the commands that run whole programs: `run`, `receive`, `admin`, `declare`, `dev`.
"""

from inboxd.main.app import main

__all__ = ["main"]
