"""Rehearsals: this process runs a row of the live database, and undoes its writes."""

from inboxd.rehearsal.rehearsal import RehearsalTerms, handlers_of, rehearse
from inboxd.rehearsal.report import Rehearsal

__all__ = ["Rehearsal", "RehearsalTerms", "handlers_of", "rehearse"]
