"""Writes the files that repeat the code: `make docs`.

    python -m tests.support.reference    writes them; commit the difference

`docs/reference/` has the settings from their models, the command line from its help, the metrics
from their registry, and the SQL functions of producers from their headers. The comments of
`config.example.toml` and `config.schema.json` come from the models of the settings, too.
`tests/docs/test_reference.py` compares the files with the code.
"""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer.main
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from inboxd.cli.man import ENDS
from inboxd.daemon.merge_metrics import FAMILIES
from inboxd.main.app import app
from inboxd.settings import Settings
from inboxd.settings.json_schema import json_schema
from inboxd.store import migrations
from inboxd.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config.example.toml"
MADE = "*`make docs` writes this page from the code.*"
# Options that this number of commands have, with the same text, are explained once.
SHARED = 6


def files() -> Iterator[tuple[Path, str]]:
    """Each file, with the text that the code makes of it."""
    folder = ROOT / "docs/reference"
    yield folder / "settings.md", settings_page()
    yield folder / "cli.md", cli_page()
    yield folder / "metrics.md", metrics_page()
    yield folder / "sql.md", sql_page()
    yield EXAMPLE, example(EXAMPLE.read_text("utf-8"))
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False)
    yield ROOT / "config.schema.json", f"{schema}\n"


def _page(title: str, about: str, parts: Iterable[str]) -> str:
    return "\n\n".join((f"# {title}", MADE, about, *filter(None, parts))) + "\n"


def _item(name: str, facts: str, text: str) -> str:
    """An item of a list: a name, what is known of it, and its meaning."""
    shown = f"`{name}` ({facts})" if facts else f"`{name}`"
    return f"- {shown}: {_line(text)}"


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


# ------------------------------------------------------------------------------------- settings


class Table(NamedTuple):
    """A table of the settings file, and the model of its keys."""

    name: str
    model: type[BaseModel]
    is_named: bool


def tables() -> Iterator[Table]:
    """The tables of the settings file, in its order."""
    for name, field in Settings.model_fields.items():
        if name not in ("inbound", "outbound"):
            yield _table(name, field)
            continue
        inner = field.annotation
        assert isinstance(inner, type)
        assert issubclass(inner, BaseModel)
        yield from (_table(f"{name}.{key}", each) for key, each in inner.model_fields.items())


def _table(name: str, field: FieldInfo) -> Table:
    kind = field.annotation
    model = _model(kind)
    assert model is not None, name
    return Table(name, model, is_named=kind is not model)


def _model(kind: Any) -> type[BaseModel] | None:
    """The model of a table that a setting holds: by itself, or as items of a list or mapping."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((found for each in get_args(kind) if (found := _model(each))), None)


def settings_page() -> str:
    about = (
        "[Configuration](../configuration.md) says where values come from, and which of them apply "
        "without a restart. The value in brackets is the default."
    )
    parts = []
    for name, model, is_named in tables():
        parts += [f"## `[{name}{'.<name>' if is_named else ''}]`", _line(model.__doc__)]
        parts.append("\n".join(_settings_of(model)))
    return _page("Settings", about, parts)


def _settings_of(model: type[BaseModel], above: str = "") -> Iterator[str]:
    defaults = model.model_construct().model_dump(mode="json", by_alias=True)
    for name, field in model.model_fields.items():
        key = field.alias or name
        yield _item(f"{above}{key}", _default(field, defaults.get(key)), field.description or "")
        inner = _model(field.annotation)
        if inner is not None and name != "retry":
            yield from _settings_of(inner, f"{above}{key}.")


def _default(field: FieldInfo, dumped: object) -> str:
    """The default as the file writes it; empty for a table, and without a default."""
    if field.is_required() or field.default is None or field.default_factory is not None:
        return ""
    if isinstance(field.default, SecretStr):
        dumped = field.default.get_secret_value()
    return f"`{json.dumps(dumped, ensure_ascii=False)}`"


def example(text: str) -> str:
    """The sample settings, with the descriptions of the models as comments."""
    models = {each.name: each.model for each in tables()}
    lines: list[str] = []
    model: type[BaseModel] | None = None
    for line in text.splitlines():
        if head := re.fullmatch(r"#?\[([a-z.]+?)(\.\w+|\.\"[^\"]+\")?\]", line):
            name = head[1] + (head[2] or "")
            model = models.get(name) or models.get(head[1])
            if model is not None:
                lines = _with_comment(lines, _line(model.__doc__))
        elif model is not None and (key := re.match(r"#([a-z_]+) = ", line)):
            fields = {each.alias or name: each for name, each in model.model_fields.items()}
            lines = _with_comment(lines, fields[key[1]].description or "")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _with_comment(lines: list[str], text: str) -> list[str]:
    """The lines, with this comment at their end in place of the one that is there."""
    while lines and lines[-1].startswith("# "):
        lines = lines[:-1]
    return [*lines, *textwrap.wrap(text, 99, initial_indent="# ", subsequent_indent="# ")]


# --------------------------------------------------------------------------------- command line


class Command(NamedTuple):
    """A command as its help describes it; parameters are pairs of a form and a text."""

    path: str
    text: str
    arguments: list[tuple[str, str]]
    options: list[tuple[str, str]]


def cli_page() -> str:
    commands = list(_commands(typer.main.get_command(app)))
    counted = Counter(option for each in commands for option in each.options)
    shared = [option for option, count in counted.items() if count >= SHARED]
    about = (
        "[Using the command line](../command-line.md) explains output, names and files. "
        "`inboxd COMMAND --help` shows the same text with examples; `inboxd man | man -l -` shows "
        "all of it."
    )
    parts = [
        "## Exit codes",
        "\n".join(f"- `{int(code)}`: {text}" for code, text in ENDS.items()),
        "## Options of many commands",
        "\n".join(_item(form, "", text) for form, text in sorted(shared)),
        "## Commands",
    ]
    for each in commands:
        own = [option for option in each.options if option not in shared]
        others = [f"`{_flag(option[0])}`" for option in each.options if option in shared]
        items = (_item(form, "", text) for form, text in (*each.arguments, *own))
        parts += [f"### `{each.path}`", each.text, "\n".join(items)]
        parts.append(f"Also {', '.join(others)}." if others else "")
    return _page("Command line", about, parts)


def _flag(form: str) -> str:
    """The long form of an option, without its value."""
    return next(each for each in re.split(r"[ ,/]+", form) if each.startswith("--"))


def _commands(group: Any) -> Iterator[Command]:
    with group.make_context("inboxd", [], resilient_parsing=True) as context:
        yield from _within(group, context)


def _within(group: Any, context: Any) -> Iterator[Command]:
    """Every command of a group, in the order of its help."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        with command.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            is_group = hasattr(command, "commands")
            if not is_group or command.invoke_without_command:
                yield _command(command, inner)
            if is_group:
                yield from _within(command, inner)


def _command(command: Any, context: Any) -> Command:
    arguments = list[tuple[str, str]]()
    options = list[tuple[str, str]]()
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record is not None and each.name != "help":
            kept = options if each.param_type_name == "option" else arguments
            kept.append((record[0], _line(record[1])))
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    return Command(context.command_path, "\n\n".join(map(_line, paragraphs)), arguments, options)


# -------------------------------------------------------------------------------------- metrics


class Shown(NamedTuple):
    """A metric as Prometheus shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def shown_metrics() -> dict[str, list[Shown]]:
    """The metrics, by the part of inboxd that shows them."""
    made = Metrics("1.2.3")
    families = {each.name: each for each in made.registry.collect()}
    rooms = {
        "Handled rows": made.tally.describe(),
        "Workers": vars(made).values(),
        "Samples": (*vars(made.samples).values(), *made.samples.describe()),
        "Daily statements": vars(made.statement).values(),
        "Received webhooks": vars(made.webhooks).values(),
        "Sources of messages": vars(made.messages).values(),
        "Relays": vars(made.relays).values(),
    }
    shown = {
        title: [
            Shown(
                f"{name}_total" if families[name].type == "counter" else name,
                families[name].type,
                tuple(each._labelnames),
                families[name].documentation,
            )
            for each in room
            if (name := getattr(each, "_name", getattr(each, "name", ""))) in families
        ]
        for title, room in rooms.items()
    }
    build = families["inboxd_build_info"]
    shown["Workers"].append(
        Shown(build.name, build.type, ("version", "python"), build.documentation)
    )
    shown["Supervisors"] = [Shown(*each) for each in FAMILIES]
    return shown


def metrics_page() -> str:
    about = (
        "[Monitoring](../monitoring.md) says how to read them, and what to watch. The brackets "
        "have the type and the labels."
    )
    parts = []
    for title, metrics in shown_metrics().items():
        parts += [f"## {title}", "\n".join(map(_metric, sorted(metrics)))]
    return _page("Metrics", about, parts)


def _metric(shown: Shown) -> str:
    facts = ", ".join((shown.kind, *(f"`{label}`" for label in shown.labels)))
    return _item(shown.name, facts, shown.text)


# ------------------------------------------------------------------------------------------ SQL


def sql_page() -> str:
    about = (
        "The role `inboxd_producer` may call these functions. [Producers](../producers.md) "
        "explains their arguments. The schema is `inboxd`, unless the settings name another."
    )
    parts = []
    for function in migrations.functions():
        head, _, code = function.text.partition("\nCREATE OR REPLACE FUNCTION {schema}.")
        text, _, calls = re.sub(r"(?m)^-- ?", "", head).partition("\ncalled by: ")
        if "producers" in calls.partition("\nroles: ")[0]:
            paragraphs = map(_line, text.split("\n\n"))
            form = re.split(r"\s+LANGUAGE ", code)[0]
            parts += [f"## `{function.name}`", *paragraphs, f"```text\ninboxd.{form}\n```"]
    return _page("SQL functions", about, parts)


def main() -> None:
    for file, text in files():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
