"""Events: pages that are claimed, run and settled in one transaction (`page`).

Where pages come from is in `sources`; the chunks of batch topics are in `chunks`. Commands are
another room, and neither imports the other.
"""
