"""`python -m inboxd`: the same as the command `inboxd`."""

from inboxd.main import main

# Process handlers import this module under another name, and must not start a daemon.
if __name__ == "__main__":
    main()
