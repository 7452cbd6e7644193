"""Topics: declarations, overrides of the settings, and the handlers of an event."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from inboxd import Event, EventChunk, EventContext, Exponential, Fixed, Handlers
from inboxd.api.topics import TopicDeclaration, checked, pointer
from inboxd.errors import PluginError, SettingsError, UsageError
from inboxd.model.backoff import Policy
from inboxd.registry.plugins import build_registry, serving
from inboxd.registry.problems import refuse
from inboxd.registry.registry import Registry
from inboxd.registry.topics import with_topics
from inboxd.settings import TopicOverride

DEFAULT = Exponential()


def declared(**values: Any) -> TopicDeclaration:
    name = values.pop("name", "rewards")
    return TopicDeclaration(name, "plugin shop", values)


def registry(*plugins: Handlers) -> Registry:
    return build_registry([(f"{each.name} 1.0", each) for each in plugins])


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"name": "a b"}, "the topic 'a b' must be without spaces"),
        ({"name": "ä" * 128}, "has 256 bytes; at most 255 fit"),
        ({"name": "default", "mode": "sequential"}, '"default"'),
        ({"mode": "parallel"}, "mode='parallel'"),
        ({"key": "/user"}, "key= is for sequential"),
        ({"mode": "sequential", "key": "user"}, "not a JSON pointer"),
        ({"mode": "sequential", "on_failure": "stop"}, "on_failure='stop'"),
        ({"on_failure": "skip"}, "on_failure= is for sequential"),
        ({"mode": "sequential", "count": 3}, "count= is for batch topics"),
        ({"mode": "batch"}, "no rule says when a chunk is due"),
        ({"mode": "batch", "count": 0}, "count=0"),
        ({"mode": "batch", "count": True}, "count=True"),
        ({"mode": "batch", "age": "0s"}, "age="),
        ({"mode": "batch", "age": "soon"}, "soon"),
        ({"mode": "batch", "cron": "every day"}, "cron"),
        ({"mode": "batch", "cron": "0 0 * * *", "zone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"mode": "batch", "count": 3, "zone": "UTC"}, "zone="),
        ({"mode": "batch", "expect": ["a"]}, "needs age="),
        ({"mode": "batch", "expect": ["a"], "age": "1h", "count": 2}, "without count="),
        ({"mode": "batch", "expect": "a", "age": "1h"}, "expect='a'"),
        ({"mode": "batch", "expect": [], "age": "1h"}, "expect=[]"),
        ({"mode": "batch", "expect": ["a", "a"], "age": "1h"}, "each once"),
        ({"total_concurrency": 65}, "total_concurrency=65"),
        ({"page_rows": "many"}, "page_rows='many'"),
        ({"retry": 3}, "retry=3"),
        ({"dedup": "id"}, "not a JSON pointer"),
        ({"dedup": "/a~"}, "not a JSON pointer"),
        ({"mode": "sequential", "key": "/u~2x"}, "not a JSON pointer"),
    ],
)
def test_wrong_declaration_is_named(values: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked(declared(**values))
    assert part in str(refused.value)


def test_pointers_are_those_of_the_rfc() -> None:
    assert pointer("/user/a~1b~0c") == ("user", "a/b~c")
    assert pointer("/") == ("",)
    assert pointer("/~01/~00") == ("~1", "~0")


def test_topic_has_the_declared_values() -> None:
    topic = checked(
        declared(mode="batch", key="/order", expect=["a", "b"], age="1h", dedup="event_id")
    )
    assert topic.key_path == ("order",)
    assert topic.dedup_path == ()
    assert topic.age == timedelta(hours=1)
    assert topic.rules() == {"age": "1h", "expect": ("a", "b")}


def shop(**topic: Any) -> Handlers:
    handlers = Handlers("shop")
    handlers.topic("rewards", **topic)

    @handlers.event("purchase.completed", topic="rewards")
    async def add(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    @handlers.event("purchase.completed")
    async def note(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    @handlers.event("refund.issued", topic="rewards", retry=Fixed(base="1s", attempts=2))
    async def take(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    return handlers


def names(found: Registry, topic: str, type_: str) -> list[str]:
    return [each.func.__name__ for each in found.handlers_of(topic, type_)]


def test_a_topics_own_handlers_go_first() -> None:
    found = registry(shop())
    assert names(found, "rewards", "purchase.completed") == ["add"]
    assert names(found, "default", "purchase.completed") == ["note"]
    assert names(found, "elsewhere", "purchase.completed") == ["note"]
    assert names(found, "elsewhere", "refund.issued") == []
    assert found.subscriptions == [
        ("default", "purchase.completed"),
        ("rewards", "purchase.completed"),
        ("rewards", "refund.issued"),
    ]


def test_a_topic_declared_twice_is_a_problem() -> None:
    other = Handlers("other")
    other.topic("rewards")
    with pytest.raises(PluginError, match="topic 'rewards' is declared by plugin shop too"):
        registry(shop(), other)


def test_a_wrong_topic_is_a_problem_with_its_source() -> None:
    with pytest.raises(PluginError, match=r"shop 1\.0: topic 'rewards': no rule says when"):
        registry(shop(mode="batch"))


def test_the_default_topic_is_not_named() -> None:
    handlers = Handlers("shop")

    @handlers.event("a.b", topic="default")
    async def handle(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    with pytest.raises(PluginError, match="leave it out"):
        registry(handlers)


def laid_over(whole: Registry, sections: Mapping[str, TopicOverride]) -> Registry:
    problems: list[str] = []
    found = with_topics(whole, sections, DEFAULT, problems)
    refuse(problems)
    return found


def retries(found: Registry) -> list[Policy | None]:
    return [each.retry for type_ in sorted(found.events) for each in found.events[type_]]


def test_settings_are_laid_over_topics() -> None:
    plugin = shop(mode="sequential", key="/user", retry=Fixed(base="3s"))
    found = laid_over(registry(plugin), {"rewards": TopicOverride(on_failure="skip")})
    topic = found.topics["rewards"]
    assert (topic.mode, topic.on_failure, topic.key_path) == ("sequential", "skip", ("user",))
    assert topic.source == "plugin shop, settings"
    assert retries(found) == [Fixed(base="3s"), None, Fixed(base="1s", attempts=2)]


def test_retries_of_the_settings_beat_those_of_handlers() -> None:
    section = TopicOverride(retry={"attempts": 7})
    found = laid_over(registry(shop()), {"rewards": section})
    assert retries(found) == [
        Exponential(attempts=7),
        None,
        Fixed(base="1s", attempts=7),
    ]


# The database must judge the same: `tests/store/test_unhandled.py`.
_TAKEN = {
    ("default", "anywhere"): True,
    ("free", "anywhere"): True,
    ("lined", "named"): True,
    ("lined", "anywhere"): True,
    ("free", "named"): False,
    ("default", "named"): False,
    ("chunked", "item"): True,
    ("chunked", "anywhere"): False,
    ("default", "strange"): False,
}


def _mixed() -> Handlers:
    handlers = Handlers("mixed")
    handlers.topic("lined", mode="sequential")
    handlers.topic("chunked", mode="batch", count=3)

    @handlers.event("anywhere")
    async def anywhere(event: Event[int], ctx: EventContext) -> None: ...

    @handlers.event("named", topic="lined")
    async def named(event: Event[int], ctx: EventContext) -> None: ...

    @handlers.chunk("item", topic="chunked")
    async def items(events: EventChunk[int], ctx: EventContext) -> None: ...

    return handlers


@pytest.mark.parametrize("served", [(), ("lined",), ("default", "chunked"), ("free",)])
def test_a_worker_of_named_topics_takes_no_others(served: tuple[str, ...]) -> None:
    """Its declarations stay complete: topics collect events while their own workers are away."""
    whole = registry(_mixed())
    found = serving(laid_over(whole, {"free": TopicOverride()}), served, [])
    taken = {pair: bool(found.handlers_of(*pair)) for pair in _TAKEN}
    assert taken == {
        (topic, type_): takes and (not served or topic in served)
        for (topic, type_), takes in _TAKEN.items()
    }
    assert set(found.chunks) == {"chunked"} - (
        set() if not served or "chunked" in served else {"chunked"}
    )
    assert found.subscriptions == whole.subscriptions
    assert found.declared() == whole.declared()
    assert set(found.topics) == {"lined", "chunked", "free"}


def test_a_name_that_nothing_declares_is_refused() -> None:
    problems: list[str] = []
    serving(registry(_mixed()), ("lned", "chunked", "nowhere"), problems)
    first, second = problems
    assert "nothing declares the topic 'lned'; did you mean 'lined'?" in first
    assert "nothing declares the topic 'nowhere'" in second
    assert '[topics."nowhere"]' in second


def test_topic_declared_only_by_the_settings() -> None:
    found = laid_over(registry(), {"audit": TopicOverride(mode="sequential", key="/id")})
    assert found.topics["audit"].source == "settings"


SEQUENTIAL = {"mode": "sequential", "key": "/user", "on_failure": "skip"}
BATCH = {
    "mode": "batch",
    "key": "/user",
    "age": "1h",
    "cron": "0 0 * * *",
    "zone": "Europe/Berlin",
    "total_concurrency": 2,
}
SET = {"mode": "batch", "expect": ["a", "b"], "age": "1h"}


@pytest.mark.parametrize(
    ("plugin", "changes", "key", "rules"),
    [
        # A new mode: declared values of the former mode do not count.
        (SEQUENTIAL, {"mode": "single"}, None, {}),
        (SEQUENTIAL, {"mode": "batch", "count": 3}, ("user",), {"count": 3}),
        (BATCH, {"mode": "single"}, None, {"total_concurrency": 2}),
        (BATCH, {"mode": "sequential"}, ("user",), {"on_failure": "block", "total_concurrency": 2}),
        (SET, {"mode": "single"}, None, {}),
        # An empty text removes a declared value.
        (SEQUENTIAL, {"mode": ""}, None, {}),
        (SEQUENTIAL, {"key": "", "on_failure": ""}, None, {"on_failure": "block"}),
        (BATCH, {"cron": "", "key": ""}, None, {"age": "1h", "total_concurrency": 2}),
        (
            BATCH,
            {"age": "", "total_concurrency": "", "zone": ""},
            ("user",),
            {"cron": "0 0 * * * UTC"},
        ),
        (SET, {"expect": ""}, None, {"age": "1h"}),
        (SET, {"expect": [], "age": "", "count": 3}, None, {"count": 3}),
        ({"mode": "batch", "count": 3}, {"count": "", "age": "5m"}, None, {"age": "5m"}),
        ({"page_rows": 3, "poll_interval": "1s"}, {"page_rows": "", "poll_interval": ""}, None, {}),
        ({"dedup": "event_id", "dedup_window": "1d"}, {"dedup": "", "dedup_window": ""}, None, {}),
    ],
)
def test_settings_change_the_mode_and_remove_values(
    plugin: dict[str, Any],
    changes: dict[str, Any],
    key: tuple[str, ...] | None,
    rules: dict[str, object],
) -> None:
    found = laid_over(registry(shop(**plugin)), {"rewards": TopicOverride(**changes)})
    topic = found.topics["rewards"]
    assert topic.mode == (changes.get("mode", plugin.get("mode")) or "single")
    assert (topic.key_path, topic.dedup_path) == (key, None)
    assert topic.rules() == rules


def test_settings_remove_a_retry_policy() -> None:
    section = TopicOverride.model_validate({"retry": ""})
    found = laid_over(registry(shop(retry=Fixed(base="3s"))), {"rewards": section})
    assert retries(found) == [None, None, Fixed(base="1s", attempts=2)]


@pytest.mark.parametrize(
    ("plugin", "changes", "part"),
    [
        ({}, {"count": 3}, "count= is for batch topics: this one is single."),
        ({}, {"key": "/user"}, "key= is for sequential and batch topics: this one is single."),
        (SEQUENTIAL, {"mode": "single", "key": "/id"}, "key= is for sequential"),
        (SEQUENTIAL, {"mode": "batch"}, "no rule says when a chunk is due"),
        (SEQUENTIAL, {"mode": "batch", "count": 3, "on_failure": "skip"}, "on_failure= is for"),
        (BATCH, {"mode": "sequential", "cron": "0 0 * * *"}, "cron= is for batch"),
        (BATCH, {"cron": "", "zone": "UTC"}, "zone= is the zone of cron=, which is missing"),
        (BATCH, {"cron": "", "age": ""}, "no rule says when a chunk is due"),
        (SET, {"age": ""}, "expect= needs age="),
    ],
)
def test_wrong_topic_of_the_settings_is_named(
    plugin: dict[str, Any], changes: dict[str, Any], part: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        laid_over(registry(shop(**plugin)), {"rewards": TopicOverride(**changes)})
    assert f'[topics."rewards"]: {part}' in str(refused.value)
