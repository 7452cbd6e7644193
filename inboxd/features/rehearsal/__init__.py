"""Rehearsals: this process runs a row of the live database, and undoes its writes."""

from inboxd.features.feature import CliCommand, Feature
from inboxd.features.rehearsal.cli import rehearse

FEATURE = Feature(
    "rehearsal",
    (
        CliCommand(
            rehearse,
            ("inboxd rehearse command 4711", "inboxd rehearse event 915 --debugger"),
            before="workers",
        ),
    ),
)
