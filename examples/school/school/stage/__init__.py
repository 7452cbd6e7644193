"""The demo's stage: a mail server, a daemon, people, a judge and a screen."""
