"""Events: pages that are claimed, run and settled in one transaction (`processing`, `page_run`).

Where pages come from is in `sources`; the lists of batch topics are in `lists`. Commands are
another room, and neither imports the other.
"""
