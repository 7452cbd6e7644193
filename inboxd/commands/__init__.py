"""Commands: leased by pages, run side by side, each settled by itself (`processing`, `runners`).

Where commands come from besides the plain lanes is in `sources`. Events are another room, and
neither imports the other.
"""
