"""`inboxd breakers`: the states of circuit breakers, and how an operator forces them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.completion import declared
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Asking, Looking, examples
from inboxd.cli.output import Fields, TableColumn
from inboxd.model.wording import breaker_word, span

if TYPE_CHECKING:
    from inboxd.resilience.rules import Mode

app = CommandGroup(no_args_is_help=True, help="Show circuit breakers, and force them.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The breaker.",
        show_default=False,
        autocompletion=declared("breaker"),
    ),
]


def _until_probe(row: Mapping[str, Any]) -> str | None:
    return span(row["rest"]) if row["mode"] == "auto" and row["state"] == "open" else None


LIST = (
    TableColumn("breaker", "name", cut="left"),
    TableColumn("state", breaker_word),
    TableColumn("for", _until_probe, legend="time until the next probe"),
    TableColumn("breaks", "opens", kind="number", legend="consecutive breaks"),
    TableColumn("since", "changed_at", kind="time"),
    TableColumn("why", "reason", cut="right"),
    TableColumn("needed by", lambda row: ", ".join(row["uses"]), cut="right", extra=True),
)


@app.command("list", epilog=examples("inboxd breakers list", "inboxd breakers list --json"))
def list_(given: Looking) -> None:
    """List breakers: their states, with the time and reason of the last change."""
    from inboxd.store import breakers

    rows = [dict(row) for row in given.ask(breakers.listed)]
    given.print({"breakers": rows}, [columns.table(LIST, rows)])


@app.command(
    "show", epilog=examples("inboxd breakers show brevo", "inboxd breakers show brevo --json")
)
def show(name: Name, given: Asking) -> None:
    """Show one breaker: its state, why it last opened, who forced it, and which types need it."""
    from inboxd.operations import one_breaker

    row: dict[str, Any] = dict(given.ask(lambda session: one_breaker(session, name)))
    fields = {
        "state": breaker_word(row),
        "next probe in": _until_probe(row),
        "consecutive breaks": row["opens"],
        "probing worker": row["prober"],
        "since": row["changed_at"],
        "reason of opening": row["reason"],
        "last forced by": row["actor"],
        "reason of forcing": row["forced_for"],
        "needed by": ", ".join(row["uses"]) or None,
    }
    given.print(row, [Fields(fields, f"Breaker {name}")])


@app.command("open", epilog=examples("inboxd breakers open brevo --reason 'they asked us to'"))
def open_(name: Name, given: Acting) -> None:
    """Force a breaker open: rows that need it wait until you change its mode again."""
    _force(name, "open", given)


@app.command("close", epilog=examples("inboxd breakers close brevo"))
def close(name: Name, given: Acting) -> None:
    """Force a breaker closed: all calls pass, even if many fail."""
    _force(name, "closed", given)


@app.command("metrics-only", epilog=examples("inboxd breakers metrics-only brevo"))
def metrics_only(name: Name, given: Acting) -> None:
    """Let a breaker count calls, without stopping any."""
    _force(name, "metrics_only", given)


@app.command("auto", epilog=examples("inboxd breakers auto brevo"))
def auto(name: Name, given: Acting) -> None:
    """Let the results of calls open and close a breaker again; a forced open one probes first."""
    _force(name, "auto", given)


def _force(name: str, mode: "Mode", given: Acting) -> None:
    from inboxd.operations import force_breaker

    row = dict(given.do(force_breaker, name, mode))
    given.tell({"breaker": name, **row}, f"Breaker {name}: {breaker_word(row)}")
