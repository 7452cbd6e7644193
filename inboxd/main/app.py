"""The whole command line: its commands, the options before them, and how errors are reported."""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.main import get_command

from inboxd.cli import (
    batches,
    breakers,
    bulk_actions,
    config,
    endpoints,
    failures,
    history,
    messages,
    plugins,
    queues,
    schedules,
    spool,
    topics,
    webhooks,
)
from inboxd.cli.audit import audit
from inboxd.cli.chart import chart
from inboxd.cli.control import pause, paused, resume
from inboxd.cli.exits import Exit, exit_code
from inboxd.cli.groups import MISTYPED, CommandGroup, in_our_words
from inboxd.cli.man import man
from inboxd.cli.new import new
from inboxd.cli.notices import notices
from inboxd.cli.options import examples
from inboxd.cli.output import show
from inboxd.cli.rows import row_commands
from inboxd.cli.schema import migrate
from inboxd.cli.statement import statement
from inboxd.cli.status import status, workers
from inboxd.cli.tail import tail
from inboxd.cli.trace import trace
from inboxd.errors import InboxdError
from inboxd.features import FEATURES, CliCommand
from inboxd.main import admin
from inboxd.main.declare import declare
from inboxd.main.dev import dev
from inboxd.main.running import receive, run

app = CommandGroup(
    name="inboxd",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"inboxd {version('inboxd')}")
        raise typer.Exit


@app.callback()
def inboxd(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            envvar="INBOXD_CONFIG",
            metavar="FILE",
            help="The TOML file of settings.",
            show_default=False,
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show an error's traceback.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Process events and commands that are stored in PostgreSQL, so that each takes effect once."""


app.command(epilog=examples("inboxd run -c config.toml"))(run)
app.command(epilog=examples("inboxd receive -c config.toml"))(receive)
app.add_typer(admin.app, name="admin")
app.command(epilog=examples("inboxd migrate", "inboxd migrate --check"))(migrate)
app.command(epilog=examples("inboxd declare --dry-run", "inboxd declare --wait 5m --json"))(declare)
app.command(epilog=examples("inboxd status", "inboxd status --watch", "inboxd status --since 7d"))(
    status
)
app.command(
    epilog=examples(
        "inboxd chart events --since 7d",
        "inboxd chart commands run-time --queue email --percentile p99",
        "inboxd chart events backlog --topic orders --output backlog.svg",
    )
)(chart)
app.add_typer(row_commands("events"), name="events")
app.add_typer(row_commands("commands"), name="commands")
app.add_typer(queues.app, name="queues")
app.add_typer(topics.app, name="topics")
app.add_typer(schedules.app, name="schedules")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(breakers.app, name="breakers")
app.add_typer(endpoints.app, name="endpoints")
app.add_typer(messages.app, name="messages")
app.add_typer(spool.app, name="spool")
app.add_typer(plugins.app, name="plugins")
app.add_typer(batches.batches, name="batches")
app.add_typer(batches.workflows, name="workflows")
app.add_typer(failures.app, name="failures")
app.add_typer(bulk_actions.app, name="actions")
app.add_typer(history.app, name="history")
app.add_typer(config.app, name="config")
app.command(
    epilog=examples(
        "inboxd statement",
        "inboxd statement --day 2026-01-31 --source shop --json",
        "inboxd statement --day 2026-01-31 --accept --reason 'restored from a backup'",
    )
)(statement)
app.command(epilog=examples("inboxd notices", "inboxd notices --all --json"))(notices)
app.command(epilog=examples("inboxd audit --action replay --since 1d"))(audit)
app.command(
    epilog=examples(
        "inboxd pause queue email --reason 'the mail server is being moved'",
        "inboxd pause type order.paid",
    )
)(pause)
app.command(epilog=examples("inboxd resume queue email"))(resume)
app.command(epilog=examples("inboxd paused", "inboxd paused --json"))(paused)
app.command(epilog=examples("inboxd tail", "inboxd tail commands --type mail.send --tenant acme"))(
    tail
)
app.command(
    epilog=examples("inboxd trace command 4711", "inboxd trace batch 3 --mermaid > story.mmd")
)(trace)
app.command(epilog=examples("inboxd workers", "inboxd workers --all --json"))(workers)
app.command(epilog=examples("inboxd man | man -l -", "inboxd man > inboxd.1"))(man)
app.command(epilog=examples("inboxd new shop", "inboxd new order-mails --folder mails"))(new)
app.command(epilog=examples("inboxd dev", "inboxd dev -c config.toml --port 0"))(dev)


def _add(command: CliCommand) -> None:
    app.command(epilog=examples(*command.examples))(command.run)
    added = app.registered_commands.pop()
    names = [each.callback and each.callback.__name__ for each in app.registered_commands]
    app.registered_commands.insert(names.index(command.before), added)


for _feature in FEATURES:
    for _each in _feature.commands:
        _add(_each)


@cache
def _command() -> Callable[..., int | None]:
    """Build all commands. Cached: it takes 0.1 s, and tests call many in one process."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_missing_streams()
    try:
        sys.exit(_command()(given, prog_name="inboxd", standalone_mode=False) or Exit.OK)
    except typer.Abort:
        typer.echo("inboxd: aborted; nothing was changed", err=True)
        sys.exit(Exit.PROBLEMS)
    except MISTYPED as error:
        if told := error.format_message():  # empty if Typer printed the help instead
            context = getattr(error, "ctx", None)
            usage = "" if context is None else f"\n{context.get_usage()}"
            typer.echo(f"inboxd: {in_our_words(told)}{usage}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        if not _is_output_error(error):
            _fail(error, given)
        _discard_output()
        typer.echo(f"inboxd: the output cannot be written: {error.strerror}", err=True)
        sys.exit(Exit.OUTPUT)
    except Exception as error:  # noqa: BLE001 - the last place; each kind has its exit code
        _fail(error, given)


def _fail(error: Exception, given: Sequence[str]) -> NoReturn:
    told = f"inboxd: {_message(error)}"
    if "--debug" in given:
        told = f"{''.join(traceback.format_exception(error))}{told}"
    told = "\n".join(map(show, told.split("\n")))
    from inboxd.telemetry import logs  # late: few commands log

    # Through the log if it is configured: on a full pipe without a reader, echo would block.
    if not logs.put(told):
        typer.echo(told, err=True)
    sys.exit(exit_code(error))


def _open_missing_streams() -> None:
    """Open /dev/null for a stream that cron or a supervisor has closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as this process
            setattr(sys, name, nowhere)


def _is_output_error(error: OSError) -> bool:
    """Whether the error was raised by printing, and not by the command."""
    return any(
        frame.name == "echo"
        or "rich" in Path(frame.filename).parts
        or "sys.stdout" in f"{frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
    )


def _discard_output() -> None:
    """Send buffered output to /dev/null; else the interpreter reports an error when it exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: Exception) -> str:
    if isinstance(error, InboxdError):
        return f"{error}{error.on_terminal}"
    return (
        f"{type(error).__name__}: {error}\n"
        "This is a bug in inboxd: run the command again with --debug and report the traceback."
    )
