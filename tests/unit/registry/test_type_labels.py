"""Titles and descriptions of types, and the order in which declarations count."""

from itertools import permutations
from typing import Any

import pytest

from inboxd.api.context import CommandContext, EventContext
from inboxd.api.handlers import Handlers
from inboxd.api.messages import Event
from inboxd.registry.plugins import build_registry
from inboxd.registry.type_labels import Label, type_labels

KEY = ("event", "order.shipped")


def _plugin(name: str, doc: str | None, **options: Any) -> Handlers:
    handlers = Handlers(name)

    async def told(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    told.__doc__ = doc
    declare: Any = handlers.event("order.shipped", topic=f"of-{name}", **options)
    declare(told)
    return handlers


def _label(*plugins: Handlers) -> Label:
    registry = build_registry((f"dist-{each.name}", each) for each in plugins)
    return type_labels(registry)[KEY]


def test_the_first_line_of_the_docstring_describes() -> None:
    plugin = _plugin("mails", "Tell the customer.\n\nBy mail.")
    assert _label(plugin) == (None, "Tell the customer.")
    assert _label(_plugin("mails", None)) == (None, None)


def test_given_title_and_description_win() -> None:
    given = _plugin("mails", "Tell.", title="Parcel sent", description="The parcel left.")
    assert _label(given) == ("Parcel sent", "The parcel left.")


def test_of_several_handlers_the_same_one_counts_in_any_order() -> None:
    one, two = _plugin("a", "From a."), _plugin("b", "From b.", title="From b")
    three = _plugin("c", "From c.", title="From c")
    found = {_label(*order) for order in permutations((one, two, three))}
    assert found == {("From b", "From a.")}


def test_a_docstring_is_one_clean_line() -> None:
    doc = "Turn \u202e it \x1b[31m round." + "x" * 1_000_000
    _, description = _label(_plugin("a", doc))
    assert description is not None
    assert description.startswith("Turn \N{REPLACEMENT CHARACTER} it \N{REPLACEMENT CHARACTER}[31m")
    assert len(description) == 300


@pytest.mark.parametrize(
    "options",
    [
        {"title": ""},
        {"title": "two\nlines"},
        {"title": "\u202eturned"},
        {"title": "x" * 81},
        {"title": 7},
        {"description": " "},
        {"description": "x" * 301},
    ],
)
def test_multiline_title_or_description_is_refused(options: dict[str, Any]) -> None:
    (problem,) = _plugin("a", None, **options).build().problems
    assert f"{next(iter(options))}=" in problem


def test_command_has_title_and_description() -> None:
    handlers = Handlers("mails")

    @handlers.command("mail.send", title="Send a mail")
    async def send(command: dict[str, Any], ctx: CommandContext) -> None:
        """Send a mail to one address."""

    labels = type_labels(build_registry([("dist", handlers)]))
    assert labels[("command", "mail.send")] == ("Send a mail", "Send a mail to one address.")
