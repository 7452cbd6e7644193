"""Plugins are found by entry point; all their problems are one message."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from inboxd.api.context import CommandContext, EventContext
from inboxd.api.handlers import Handlers
from inboxd.api.messages import Event
from inboxd.api.routes import EventRoute, Route
from inboxd.errors import PluginError, SettingsError, UsageError
from inboxd.model.backoff import Exponential, Fixed
from inboxd.registry.plugins import (
    accepted,
    build_registry,
    configured,
    load_plugins,
    with_types,
)
from inboxd.registry.problems import refuse
from inboxd.registry.registry import Registry
from inboxd.registry.unknown_names import doubts
from inboxd.settings import Reading, Settings, TypeOverride, read

Install = Callable[[str, str], None]

GOOD = """
from inboxd import Event, EventContext, Handlers

handlers = Handlers("good")

@handlers.event("a.created")
async def on_created(event: Event[int], ctx: EventContext) -> None: ...
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install distributions of one module each; the entry point has the module's name."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"dist_{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[inboxd.handlers]\n{name} = {name}:handlers\n")

    yield write
    for added in set(sys.modules) - before:
        del sys.modules[added]


def test_an_installed_plugin_is_found(install: Install) -> None:
    install("good_plugin", GOOD)
    registry = load_plugins(["good_plugin"])
    assert registry.event_types == ["a.created"]
    assert (registry.command_types, registry.queues) == ([], [])


def test_all_problems_are_reported_at_once(install: Install) -> None:
    install("good_plugin", GOOD)
    install("broken", "import nothing_like_this\n")
    install("leaves", "raise SystemExit(3)\n")
    install("other", "handlers = 42\n")
    install("empty", "")
    install("wrong", GOOD.replace("ctx: EventContext", "ctx"))
    install("syntax", "def (\n")
    with pytest.raises(PluginError) as caught:
        load_plugins(
            ["good_plugin", "broken", "leaves", "other", "empty", "wrong", "syntax", "god_plugin"]
        )
    first, *problems = str(caught.value).split("\n- ")
    assert first == "Problems with plugins (7):"
    missing, *others = problems
    assert "god_plugin" in missing
    assert "did you mean 'good_plugin'?" in missing
    by_name = {
        name: next(
            text for text in others if text.startswith(f"dist-{name} 1.2, entry point {name} = ")
        )
        for name in ("broken", "leaves", "other", "empty", "wrong", "syntax")
    }
    assert "No module named 'nothing_like_this'" in by_name["broken"]
    assert "broken.py:1" in by_name["broken"]
    assert "SystemExit: 3" in by_name["leaves"]
    assert "it names a int" in by_name["other"]
    assert "AttributeError" in by_name["empty"]
    assert "parameter 'ctx' has no annotation" in by_name["wrong"]
    assert "SyntaxError" in by_name["syntax"]


def test_a_failed_import_names_the_plugin_s_line_and_its_text(
    install: Install, tmp_path: Path
) -> None:
    install("wrong_syntax", "x = 1\ndef broken(:\n    pass\n")
    install("wrong_name", "handlers = None\nhandlers = hanlders\n")
    # Errors inside imported code: in another distribution, or in the standard library.
    (tmp_path / "elsewhere.py").write_text("import json\n\njson.loads('{')\n")
    install("wrong_import", "\n\nimport elsewhere\n")
    install("wrong_call", "import json\nhandlers = json.loads('{')\n")
    install("needs", "from json import nothing_like_this\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/__init__.py").write_text("from deep import plugin\nhandlers = plugin\n")
    (tmp_path / "deep/plugin.py").write_text("if True:\nx = 1\n")
    install("unused", "")
    (tmp_path / "dist_unused-1.2.dist-info/entry_points.txt").write_text(
        "[inboxd.handlers]\ndeep = deep:handlers\n"
    )
    names = ["wrong_syntax", "wrong_name", "wrong_import", "wrong_call", "needs", "deep"]
    with pytest.raises(PluginError) as caught:
        load_plugins(names)
    found = {
        line.partition(" = ")[0].rpartition(" ")[2]: line.partition("import failed: ")[2]
        for line in str(caught.value).split("\n- ")[1:]
    }
    assert found["wrong_syntax"].startswith("SyntaxError: ")
    assert found["wrong_syntax"].endswith(f", at {tmp_path}/wrong_syntax.py:2: def broken(:")
    assert found["wrong_name"].startswith("NameError: name 'hanlders' is not defined")
    assert found["wrong_name"].endswith(f", at {tmp_path}/wrong_name.py:2: handlers = hanlders")
    assert found["wrong_import"].startswith("JSONDecodeError: ")
    assert found["wrong_import"].endswith(f", at {tmp_path}/wrong_import.py:3: import elsewhere")
    assert found["wrong_call"].endswith("/wrong_call.py:2: handlers = json.loads('{')")
    assert found["needs"].startswith("ImportError: cannot import name 'nothing_like_this'")
    assert found["needs"].endswith("/needs.py:1: from json import nothing_like_this")
    assert found["deep"].startswith("IndentationError: ")
    assert found["deep"].endswith(f", at {tmp_path}/deep/plugin.py:2: x = 1")


# ---------------------------------------------------------------------------------- registry


class Send(BaseModel):
    pass


class Twice(BaseModel):
    """The payload of two commands."""


def plugin(name: str = "school") -> Handlers:
    handlers = Handlers(name)

    @handlers.event("a.created", retry=Fixed(base="1m"))
    async def first(event: Event[int], ctx: EventContext) -> None: ...

    @handlers.event("a.created")
    async def second(event: Event[int], ctx: EventContext) -> None: ...

    @handlers.event("a.created", as_command=True)
    async def later(event: Event[int], ctx: CommandContext) -> None: ...

    @handlers.command("school.send", queue="email", priority=2, schema_version=3, timeout="1m")
    async def send(command: Send, ctx: CommandContext) -> None: ...

    @handlers.command("school.one")
    async def one(command: Twice, ctx: CommandContext) -> None: ...

    @handlers.command("school.two")
    async def two(command: Twice, ctx: CommandContext) -> None: ...

    return handlers


@pytest.fixture
def registry() -> Registry:
    return build_registry([("school 1.0", plugin())])


def test_several_handlers_take_one_event(registry: Registry) -> None:
    names = [handler.name.rpartition(".")[2] for handler in registry.events["a.created"]]
    assert names == ["first", "second", "later"]
    assert registry.queues == ["default", "email"]
    later = registry.events["a.created"][2]
    assert registry.command_of(later) is registry.commands["school.later"]


def test_a_command_is_found_by_its_class_or_its_type(registry: Registry) -> None:
    there = Route("school.send", "email", 3, 2)
    assert registry.resolve(Send) == registry.resolve("school.send") == there
    assert registry.resolve("elsewhere.do") == Route("elsewhere.do", None, 1, 0)
    with pytest.raises(UsageError, match=r"Twice is the payload of school\.one, school\.two"):
        registry.resolve(Twice)
    with pytest.raises(UsageError, match="No command handler takes dict"):
        registry.resolve(dict)


def test_an_event_is_found_by_its_class_or_its_type() -> None:
    handlers = Handlers("shop")

    class Paid(BaseModel):
        """The payload of one type, in two versions."""

    class Changed(BaseModel):
        """The payload of two types."""

    class Marked(BaseModel):
        """It declares its type itself; this registry has no handler for it."""

        inboxd_event: ClassVar[str] = "elsewhere.done"
        inboxd_command: ClassVar[str] = "elsewhere.do"
        inboxd_version: ClassVar[int] = 4

    class Wrong(BaseModel):
        """Its type is not a text."""

        inboxd_event: ClassVar[int] = 7

    class Field(BaseModel):
        """Its type is a field, not a class variable."""

        inboxd_event: str = "order.paid"

    class Version(BaseModel):
        """Its version is a field, not a class variable."""

        inboxd_event: ClassVar[str] = "order.paid"
        inboxd_version: int = 2

    @handlers.event("order.paid", schema_version=3)
    async def newer(event: Event[Paid], ctx: EventContext) -> None: ...

    @handlers.event("order.paid", schema_version=2, as_command=True)
    async def older(event: Event[Paid], ctx: CommandContext) -> None: ...

    @handlers.event("order.opened")
    async def opened(event: Event[Changed], ctx: EventContext) -> None: ...

    @handlers.event("order.closed")
    async def closed(event: Event[Changed], ctx: EventContext) -> None: ...

    registry = build_registry([("shop 1.0", handlers)])
    there = EventRoute("order.paid", 2)
    assert registry.resolve_event(Paid) == registry.resolve_event("order.paid") == there
    assert registry.resolve_event("elsewhere.done") == EventRoute("elsewhere.done", 1)
    assert registry.resolve_event(Marked) == EventRoute("elsewhere.done", 4)
    assert registry.resolve(Marked) == Route("elsewhere.do", None, 4, 0)
    with pytest.raises(UsageError, match=r"Changed is the payload of order\.closed, order\.opened"):
        registry.resolve_event(Changed)
    with pytest.raises(UsageError, match="No event type is known for dict"):
        registry.resolve_event(dict)
    with pytest.raises(UsageError, match=r"Wrong\.inboxd_event must be a str, not int"):
        registry.resolve_event(Wrong)
    with pytest.raises(UsageError, match=r"Field\.inboxd_event is a field .* ClassVar"):
        registry.resolve_event(Field)
    with pytest.raises(UsageError, match=r"Version\.inboxd_version is a field .* ClassVar"):
        registry.resolve_event(Version)


def test_declarations_can_be_compared(registry: Registry) -> None:
    assert registry.declared() == build_registry([("elsewhere", plugin())]).declared()
    assert registry.declared() != build_registry([]).declared()
    assert "command school.send email 3" in registry.declared()


def test_two_plugins_with_one_type_are_refused() -> None:
    with pytest.raises(PluginError) as caught:
        build_registry([("school 1.0", plugin()), ("copy 2.0", plugin("copy"))])
    text = str(caught.value)
    assert "'school.send' is declared by" in text
    assert ".send of school 1.0, and again by" in text
    assert ".send of copy 2.0: keep one." in text
    assert "'a.created' is declared by" in text


# --------------------------------------------------------------------------------- overrides


def overridden(registry: Registry, **types: dict[str, Any]) -> Registry:
    settings = {name.replace("__", "."): TypeOverride(**each) for name, each in types.items()}
    problems: list[str] = []
    changed = with_types(registry, settings, Exponential(base="9s"), problems)
    refuse(problems)
    return changed


def test_settings_override_what_code_declares(registry: Registry) -> None:
    changed = overridden(
        registry,
        a__created={"timeout": "2s", "retry": {"attempts": 4}},
        school__send={"queue": "slow"},
    )
    first, second, _ = changed.events["a.created"]
    assert first.timeout == second.timeout == 2
    assert first.retry == Fixed(base="1m", attempts=4)
    assert second.retry == Exponential(base="9s", attempts=4)
    send = changed.commands["school.send"]
    assert (send.queue, send.timeout, send.retry) == ("slow", 60, None)
    assert changed.resolve(Send).queue == "slow"
    assert registry.commands["school.send"].queue == "email"


def test_nothing_to_override_changes_nothing(registry: Registry) -> None:
    assert overridden(registry) == registry


def test_unhandled_may_be_set_for_undeclared_types(registry: Registry) -> None:
    assert overridden(registry, school__gone={"unhandled": "ignore"}) == registry
    assert overridden(registry, a__created={"unhandled": "dead"}) == registry
    with pytest.raises(SettingsError, match="no plugin declares this type"):
        overridden(registry, school__gone={"unhandled": "ignore", "timeout": "2s"})
    with pytest.raises(SettingsError, match="unhandled: it is for event types"):
        overridden(registry, school__send={"unhandled": "ignore"})


def test_every_override_that_does_not_fit_is_named(registry: Registry) -> None:
    with pytest.raises(SettingsError) as caught:
        overridden(
            registry,
            school__sent={"timeout": timedelta(seconds=1)},
            school__one={"retry": {"atempts": 3}},
            a__created={"queue": "slow"},
        )
    unknown, retry, queue = str(caught.value).split("\n")
    assert unknown == (
        "[types.\"school.sent\"]: no plugin declares this type; did you mean 'school.send'?"
    )
    assert "did you mean 'attempts'?" in retry
    assert "an event type has no queue" in queue


def test_problems_of_all_sections_are_reported_at_once(registry: Registry) -> None:
    settings = Settings.model_validate(
        {
            "worker": {"topics": ["nowhere"]},
            "events": {"timeout": "5s"},
            "retry": {"kind": "fixed", "factor": 3},
            "topics": {"mine": {"count": 3}},
            "types": {"school.sent": {"timeout": "1s"}, "a.created": {"timeout": "90s"}},
            "schedules": {"tick": {"cron": "* * * * *", "command": "school.sent"}},
        }
    )
    with pytest.raises(SettingsError) as caught:
        configured(registry, settings)
    told = str(caught.value).split("\n")
    starts = (
        "[retry]",
        '[topics."mine"]',
        '[types."school.sent"]',
        "event handlers with a timeout",
    )
    assert [line.startswith(start) for line, start in zip(told, starts, strict=False)] == [True] * 4
    assert [line.partition(":")[0] for line in told[4:]] == ['[schedules."tick"]', "worker.topics"]
    assert "did you mean 'school.send'?" in told[4]


def partial(tmp_path: Path, text: str) -> Reading:
    path = tmp_path / "inboxd.toml"
    path.write_text(text, encoding="utf-8")
    return read(path, {})


def test_problems_shown_by_plugins_are_reported_beside_wrong_values(
    registry: Registry, tmp_path: Path
) -> None:
    reading = partial(
        tmp_path,
        '[log]\nlevel = "loud"\n[worker]\ntopics = ["nowhere", "b"]\nlease = "10s"\n'
        '[events]\ntimeout = "5s"\n'
        '[topics.a]\nmode = "bach"\ncount = 3\n[topics.b]\ncount = 3\n'
        '[retry]\nbase = 3\n[types."school.send"]\nretry = { atempts = 3 }\n'
        '[types."school.sent"]\ntimeout = 1\n[types."a.created"]\ntimeout = "90s"\n'
        '[schedules.tick]\ncron = "* * * * *"\ncommand = "school.sent"\npriority = "x"\n',
    )
    with pytest.raises(SettingsError) as caught:
        accepted(reading, registry)
    told = str(caught.value).split("\n")
    starts = (
        *("[topics.a] mode", "[retry] base", "[types.school.sent] timeout"),
        *("[schedules.tick] priority", "[log] level", "[worker]: heartbeat_interval"),
    )
    assert [s in line for line, s in zip(told, starts, strict=False)] == [True] * 6, told
    assert [line.partition(":")[0] for line in told[6:]] == [
        '[topics."b"]',
        '[types."school.send"]',
        '[types."school.sent"]',
        "event handlers with a timeout of 60 s or more",
        '[schedules."tick"]',
        "worker.topics",
    ]
    assert all("did you mean 'school.send'?" in told[n] for n in (8, 10))


@pytest.mark.parametrize(
    "text",
    [
        '[retry]\nkind = "fixd"\nfactor = 3\n',
        '[retry]\nkind = "fixed"\nfator = 3\nfactor = 2\n',
        '[retry]\ncap = 3\n[types."school.send"]\nretry = { base = "2h" }\n',
        '[retry]\ncap = 3\n[topics.own]\nretry = { base = "2h" }\n',
        '[topics.own]\nretry = 3\n[types."a.created"]\nretry = { delays = ["1s"] }\n',
        '[topics.own]\nmode = "bach"\ncount = 3\n[worker]\ntopics = ["own"]\n',
        '[topics]\nown = 3\n[worker]\ntopics = ["own"]\n',
        '[types."no.such"]\nunhandled = "ded"\n',
        '[types."no.such"]\nunhandld = "dead"\n',
        '[types."a.created"]\ntimeout = "90s"\n[database]\nidle_in_transaction_timeout = 300\n',
        '[schedules.tick]\ncron = 3\ncommand = "school.send"\n',
        '[schedules.tick]\ncrn = "* * * * *"\ncommand = "school.send"\n',
        '[schedules.tick]\ncron = "* * * * *"\njob = "school.send"\n',
        '[worker]\nplugins = [3]\n[types."no.such"]\ntimeout = "1s"\n',
    ],
)
def test_no_problem_is_reported_that_follows_from_a_wrong_value(
    registry: Registry, tmp_path: Path, text: str
) -> None:
    reading = partial(tmp_path, text)
    chosen = registry if reading.settings.knows("worker", "plugins") else None
    with pytest.raises(SettingsError) as caught:
        accepted(reading, chosen)
    assert str(caught.value).split("\n") == list(reading.problems)
    assert len(reading.problems) == 1


def test_queue_that_an_invalid_section_may_name_causes_no_warning(
    registry: Registry, tmp_path: Path
) -> None:
    text = '[queues.slow]\nconcurrency = 1\n[types."school.send"]\n'
    for wrong, doubted in (("timeout = 3", 1), ("queue = 3", 0), ('quue = "slow"', 0)):
        settings = partial(tmp_path, text + wrong).settings
        assert len(doubts(settings, registry, {})) == doubted, wrong


def test_undeclared_names_cause_warnings_only(registry: Registry) -> None:
    settings = Settings.model_validate(
        {
            "worker": {"queues": ["emial", "email", "elsewhere"]},
            "queues": {"emial": {}, "elsewhere": {}, "email": {}, "default": {}, "days": {}},
            "topics": {"loyalti": {}, "audit": {}, "loyalty": {}},
            "types": {"a.creatd": {"unhandled": "dead"}, "z.z": {"unhandled": "dead"}},
            "schedules": {"s": {"cron": "* * * * *", "command": "school.send", "queue": "days"}},
        }
    )
    declared = {"queue": frozenset({"elsewhere"}), "topic": frozenset({"loyalty"})}
    found = doubts(settings, configured(registry, settings), declared)
    assert [(each.setting, each.found.rpartition("; ")[2]) for each in found] == [
        ("worker.queues", "did you mean 'email'?"),
        ("worker.queues", found[1].found),
        ("[queues.emial]", "did you mean 'email'?"),
        ("[topics.loyalti]", "did you mean 'loyalty'?"),
        ('[types."a.creatd"]', "did you mean 'a.created'?"),
    ]
    assert "'elsewhere'" in found[1].found


@pytest.mark.parametrize("table", ["webhooks", "messages"])
def test_source_without_a_subscription_causes_a_warning(registry: Registry, table: str) -> None:
    sources = {
        "known": {"type": "a.created"},
        "elsewhere": {"type": "z.known", "topics": ["default", "loyalty"]},
        "several": {"type_from": "pointer:/type"},
        "unknown": {"type": "a.creatd"},
        "nowhere": {"type": "a.created", "topics": ["loyalti"]},
    }
    settings = Settings.model_validate({"inbound": {table: sources}})
    found = doubts(settings, registry, {"topic": frozenset({"loyalty"})})
    waits = "so its events wait; did you mean"
    assert [(each.setting, each.found) for each in found] == [
        (
            f"[inbound.{table}.unknown]",
            f"no handler subscribes to its type 'a.creatd', {waits} 'a.created'?",
        ),
        (
            f"[inbound.{table}.nowhere]",
            f"its topic 'loyalti' is not declared, {waits} 'loyalty'?",
        ),
    ]


def test_resources_of_two_plugins_of_one_name_are_refused() -> None:
    async def coins() -> AsyncIterator[int]:
        yield 7

    async def nothing() -> AsyncIterator[None]:
        yield

    one, other = Handlers("shop"), Handlers("shop")
    for each in (one, other):
        each.lifespan(coins)
        each.lifespan(nothing)
    with pytest.raises(PluginError) as caught:
        build_registry([("one 1.0", one), ("other 1.0", other)])
    assert "Problems with plugins (1):" in str(caught.value)
    assert "other 1.0: " in str(caught.value)
    assert "both are of a plugin called 'shop': give one of the two another" in str(caught.value)
    lifespans = build_registry([("one 1.0", one)]).lifespans
    assert [each.yields for each in lifespans] == [int, NoneType]
