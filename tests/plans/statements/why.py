"""Cases of the statements that tell why a row waits."""

from inboxd.settings import Queue
from inboxd.store import waiting
from inboxd.store.limits import Bounds
from tests.plans.statements.case import Case

_OF_COMMANDS = (
    *("commands_pkey", "commands_command_id", "commands_holding", "commands_line"),
    *("commands_lane", "commands_running", "commands_suspect_groups", "commands_unique_key"),
)
_OF_EVENTS = ("events_pkey", "events_head", "events_lines", "events_lane", "events_arrived")


def _why_command(of: str) -> tuple[Case, tuple[str, ...]]:
    bounds = Bounds(total=5, rate=10)
    return (
        lambda s, k: waiting.of_command(s, k.of(of)[-1], bounds, 10, 100, 100),
        _OF_COMMANDS,
    )


def _why_event(of: str) -> tuple[Case, tuple[str, ...]]:
    return lambda s, k: waiting.of_event(s, k.of(of)[-1], 100), _OF_EVENTS


def _why_turn(of: str) -> tuple[Case, tuple[str, ...]]:
    queues = {"big": Queue(), "keyed": Queue(priority=-1), "few": Queue(total_concurrency=5)}
    return (
        lambda s, k: waiting.turn_of_command(s, k.of(of)[-1], queues, 100),
        (
            *("commands_pkey", "commands_holding", "commands_lane"),
            *("commands_arrived", "commands_again", "commands_suspects"),
        ),
    )


WHY: dict[str, tuple[Case, tuple[str, ...]]] = {
    "explain_command": _why_command("commands few"),
    "explain_command, running": _why_command("commands held"),
    "explain_command, dead": _why_command("commands dead"),
    "explain_command of a key": _why_command("commands keyed"),
    "explain_command of a step": _why_command("commands step"),
    "explain_turn": _why_turn("commands few"),
    "explain_turn of a key": _why_turn("commands keyed"),
    "explain_event": _why_event("events few"),
    "explain_event, dead": _why_event("events dead"),
    "explain_event, arrived": _why_event("events turn"),
    "explain_event, lined up": _why_event("events long"),
    "explain_event of a chunk": _why_event("events chunked"),
}
