"""`python -m inboxd`: the same as the command `inboxd`."""

from inboxd.cli import main

# Handlers' processes import this module under another name, and must not become daemons.
if __name__ == "__main__":
    main()
