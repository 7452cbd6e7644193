"""Rehearsals: a row of the live database is run by this process, and undone.

`rehearsal` is the mechanism, `report` what it tells. Both are for `inboxd rehearse`.
"""

from inboxd.rehearsal.rehearsal import RehearsalTerms, handlers_of, rehearse
from inboxd.rehearsal.report import Rehearsal

__all__ = ["Rehearsal", "RehearsalTerms", "handlers_of", "rehearse"]
