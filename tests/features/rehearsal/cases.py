"""Cases of rehearsals: the row that is run, and the rows that its handlers wrote."""

from inboxd.features.rehearsal import store
from tests.plans.statements.case import Case

OPERATOR: dict[str, tuple[Case, tuple[str, ...]]] = {
    "rehearsed_event": (
        lambda s, k: store.find(s, "event", k.one("events_history")),
        ("events_event_id",),
    ),
    "rehearsed_command": (
        lambda s, k: store.find(s, "command", k.one("commands_history")),
        ("commands_command_id",),
    ),
    "written_events": (
        lambda s, k: s.fetch("written_events", [k.one("events")]),
        ("events_event_id",),
    ),
    "written_commands": (
        lambda s, k: s.fetch("written_commands", [k.one("commands")]),
        ("commands_command_id",),
    ),
}
