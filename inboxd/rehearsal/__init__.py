"""Rehearsals: this process runs a row of the live database, and undoes its writes.

`rehearsal` is the mechanism, `report` its result. Both are for `inboxd rehearse`.
"""

from inboxd.rehearsal.rehearsal import RehearsalTerms, handlers_of, rehearse
from inboxd.rehearsal.report import Rehearsal

__all__ = ["Rehearsal", "RehearsalTerms", "handlers_of", "rehearse"]
