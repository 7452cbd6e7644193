"""Commands: leased by pages, run side by side, each settled by itself (`processing`, `runners`).

The places that they are leased from are in `sources`. Events are another room, and neither imports
the other.
"""
