"""`inboxd messages`: the streams of brokers, their stored positions, and their readers."""

from typing import Annotated

import typer

from inboxd.cli import columns, findings
from inboxd.cli.completion import declared
from inboxd.cli.exits import Exit
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Asking, Looking, examples
from inboxd.cli.output import TableColumn
from inboxd.model.wording import plural

app = CommandGroup(
    no_args_is_help=True, help="Show sources of messages, and set where they continue."
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="The source of messages.",
        show_default=False,
        autocompletion=declared("source of messages"),
    ),
]
LIST: columns.Columns = (
    TableColumn("source", cut="left"),
    TableColumn("broker", cut="left"),
    TableColumn("stream", cut="left"),
    TableColumn("position", kind="number"),
    TableColumn("stored", "stored_at", kind="time"),
    TableColumn("read by", "worker", cut="left"),
    "state",
    TableColumn("lag", kind="number", legend="messages that the worker has not read yet"),
    TableColumn("opened", "opened_at", kind="time", extra=True),
    TableColumn("trouble", cut="right"),
)


@app.command("list", epilog=examples("inboxd messages list", "inboxd messages list --json"))
def list_(given: Looking) -> None:
    """List the streams of sources: the stored position of each, and the worker that reads it."""
    from inboxd.operations.messages import streams, streams_read

    document = given.ask(streams)
    rows = streams_read(document["streams"], document["readers"])
    remarks = []
    if left_out := document["streams_left_out"]:
        remarks.append(f"{plural(left_out, 'more stream')} not shown")
    given.print(document, [columns.table(LIST, rows)], remarks)


@app.command(
    "reset",
    epilog=examples(
        "inboxd messages reset orders orders/3 --to oldest",
        "inboxd messages reset bets BETS --to 4711 --reason 'the stream was recreated'",
    ),
)
def reset(
    name: Name,
    stream: Annotated[
        str,
        typer.Argument(
            metavar="STREAM",
            help="The stream of NATS or RabbitMQ, or the Kafka topic and partition: orders/3.",
            show_default=False,
        ),
    ],
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="oldest|newest|POSITION",
            help="Where to continue: with the oldest message of the broker, with the next new "
            "message, or after a position.",
            show_default=False,
        ),
    ],
    given: Acting,
) -> None:
    """Continue a stream elsewhere: messages in between are skipped, or become events again."""
    from inboxd import operations
    from inboxd.operations.messages import check_has_positions

    check_has_positions(given.settings, name)
    given.do(operations.reset_stream, name, stream, to)
    where = f"after {to}" if to.isdecimal() else f"with the {to} message"
    told = f"Stream {stream} of {name} continues {where}, within seconds"
    given.tell({"source": name, "stream": stream, "to": to}, told)


@app.command(
    "verify", epilog=examples("inboxd messages verify", "inboxd messages verify --rows 1000 --json")
)
def verify(
    rows: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=10_000,
            help="Look for the last N stored messages of each stream among the rows.",
        ),
    ] = 100,
    *,
    given: Asking,
) -> None:
    """Compare the brokers' streams with stored positions and rows, and report gaps.

    The exit code is 1 if there is a gap, and 69 if a broker cannot be asked. Nothing is consumed or
    changed.
    """
    from dataclasses import asdict
    from functools import partial

    from inboxd.inbound.messages import verifying
    from inboxd.operations.doctor.finding import Verdict

    settings = given.settings
    found = given.ask(partial(verifying.verify, settings=settings, most=rows))
    if given.json:
        given.print({"streams": [asdict(each) for each in found]}, [])
    else:
        findings.print_findings(
            findings.FindingLine(
                "Sources of messages",
                " ".join(filter(None, (each.source, each.stream))),
                each.verdict,
                each.found,
                each.remedy,
            )
            for each in found
        )
        if not found:
            typer.echo("There are no sources of messages.")
    wrong = [each for each in found if each.verdict.rank >= Verdict.WARNING.rank]
    if any(each.seen for each in wrong):
        raise typer.Exit(Exit.PROBLEMS)
    raise typer.Exit(Exit.UNAVAILABLE if wrong else Exit.OK)
