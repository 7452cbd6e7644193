"""`python -m inboxd`: the same as the command `inboxd`."""

from inboxd.cli import main

main()
