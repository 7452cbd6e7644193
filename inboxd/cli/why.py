"""`inboxd events why`, `inboxd commands why`: the causes, in the order in which they must end."""

from shlex import quote
from typing import TYPE_CHECKING, Any

from inboxd.cli.columns import table as table_of
from inboxd.cli.options import Looking
from inboxd.cli.output import TableColumn
from inboxd.model.row_id import read_row_id
from inboxd.model.waiting import told

if TYPE_CHECKING:
    from inboxd.store.wakeups import HotTable

# The command that shows more, by the kind of a cause's object.
_SHOWN = {
    "event": "inboxd events why {}",
    "command": "inboxd commands why {}",
    "batch": "inboxd batches show {}",
    "workflow": "inboxd workflows show {}",
    "queue": "inboxd queues show {}",
    "topic": "inboxd topics show {}",
    "breaker": "inboxd breakers show {}",
    "endpoint": "inboxd endpoints show {}",
    "worker": "inboxd workers",
}


def _more(cause: dict[str, Any]) -> str:
    if cause["cause"] == "paused":
        return "inboxd paused"
    things = [fact for fact in cause["facts"].values() if isinstance(fact, dict)]
    commands = (
        _SHOWN[each["kind"]].format(quote(str(each.get("id", each.get("name")))))
        for each in things
        if each["kind"] in _SHOWN
    )
    return next(commands, "")


_CAUSES = (
    "cause",
    TableColumn("detail", told, cut="right"),
    TableColumn("more", _more, cut="right"),
)


def print_why(table: "HotTable", id: str, given: Looking) -> None:
    from inboxd import operations

    wanted, settings = read_row_id(id), given.settings
    found = given.ask(lambda session: operations.why(session, settings, table, wanted))
    causes = found["causes"]
    given.print(found, [found["sentence"], *([table_of(_CAUSES, causes)] if causes else [])])
