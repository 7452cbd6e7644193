"""`inboxd man`: the manual page, made from the texts of `--help`; each run prints the same page."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from inboxd.cli.exits import Exit

ENDS = {
    Exit.OK: "success; for run: stopped by a signal",
    Exit.PROBLEMS: "problems were found, or a row does not exist or does not allow the action",
    Exit.USAGE: "the command line or a value in it is wrong",
    Exit.DATA: "the written row is a dead letter, or a line of a file is broken",
    Exit.UNKNOWN_NAME: "a name is not declared",
    Exit.UNAVAILABLE: "the database is unreachable, or a privilege is missing",
    Exit.INTERNAL: "an unexpected error, or the daemon ended itself",
    Exit.OUTPUT: "the output cannot be written, as on a full disk; the command's work is done",
    Exit.TEMPORARY: "temporary: a lock, a time limit or a starting server; try again",
    Exit.CONFIG: "settings, plugins or the schema's version are wrong",
}
_OPTIONS = "[\\fIOPTIONS\\fR]"
_MORE = "The pages in docs/: command-line.md, configuration.md, operations.md."
# Characters that roff would interpret, or show as others.
_ESCAPES = {
    "\\": "\\e",
    "-": "\\-",
    '"': "\\(dq",
    "'": "\\(aq",
    "`": "\\(ga",
    "^": "\\(ha",
    "~": "\\(ti",
}
_VARIABLES = {
    "INBOXD_CONFIG": "The TOML file of settings, as --config.",
    "INBOXD_SECTION__KEY": "A setting, such as INBOXD_DATABASE__DSN; it overrides the file.",
}


def man(context: typer.Context) -> None:
    """Print the manual page inboxd(1) of all commands, for man."""
    from importlib.metadata import version

    root = context.find_root()
    for line in page(root.command, version("inboxd")):
        typer.echo(line)


def page(program: Any, version: str) -> Iterator[str]:
    name = "inboxd"
    with program.make_context(name, [], resilient_parsing=True) as context:
        yield f'.TH INBOXD 1 "" "inboxd {_text(version)}" "User Commands"'
        yield from (".SH NAME", f"{name} \\- {_text(_sentence(program.help))}")
        yield from (
            ".SH SYNOPSIS",
            f".B {name}",
            "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGS\\fR]...",
        )
        yield from (".SH DESCRIPTION", *_paragraphs(program.help))
        yield from (".SH OPTIONS", *_parameters(program, context))
        yield ".SH COMMANDS"
        for full, command, inner in _commands(program, context):
            pieces = " ".join(command.collect_usage_pieces(inner))
            yield f'.SS "{_text(f"{full} {pieces}")}"'
            yield from _paragraphs(command.help)
            yield from _parameters(command, inner, but="help")
            yield from _examples(command.epilog)
    yield ".SH EXIT STATUS"
    yield from _listed({str(int(code)): told for code, told in ENDS.items()})
    yield from (".SH ENVIRONMENT", *_listed(_VARIABLES))
    yield from (
        ".SH SEE ALSO",
        *_paragraphs("The pages in docs/: command-line.md, configuration.md, operations.md."),
    )


def _commands(group: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        with command.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            is_group = hasattr(command, "commands")
            if not is_group or command.invoke_without_command:
                yield inner.command_path, command, inner
            if is_group:
                yield from _commands(command, inner)


def _parameters(command: Any, context: Any, but: str = "") -> Iterator[str]:
    known = (each for each in command.get_params(context) if each.name != but)
    records = (each.get_help_record(context) for each in known)
    yield from _listed(dict(each for each in records if each is not None))


def _listed(entries: dict[str, str]) -> Iterator[str]:
    for tag, told in entries.items():
        yield from (".TP", f"\\fB{_text(tag)}\\fR", _text(" ".join(told.split())) or "\\&")


def _paragraphs(text: str | None) -> Iterator[str]:
    for place, paragraph in enumerate(_split(text)):
        if place:
            yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _examples(text: str | None) -> Iterator[str]:
    lines = [line.strip() for line in _split(text)][1:]
    if lines:
        yield from (".PP", "Examples:", ".PP", ".nf", ".RS")
        yield from map(_text, lines)
        yield from (".RE", ".fi")


def _split(text: str | None) -> list[str]:
    return [each for each in re.split(r"\n\s*\n", text or "") if each.strip()]


def _sentence(text: str | None) -> str:
    return " ".join((_split(text) or [""])[0].split()).rstrip(".")


def _text(text: str) -> str:
    """Escape text for roff: no escapes, no requests, hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    text = (
        text.replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    )
    return f"\\&{text}" if text.startswith(".") else text
