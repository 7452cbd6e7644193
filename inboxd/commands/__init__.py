"""Commands: leased by pages, run side by side, each settled by itself (`processing`, `runners`).

Where they come from is in `sources`. Events are another room, and
neither imports the other.
"""
