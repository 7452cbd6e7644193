"""The chunk handlers of batch topics, and mismatches between topics and handlers.

Known limit: another worker's plugins may have the handler of a topic of the settings alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from inboxd.api.chunk_due import rule_of
from inboxd.api.records import ChunkHandler, EventHandler
from inboxd.api.topics import Topic

_BATCH = "batch"


def gather(
    handlers: Iterable[EventHandler], topics: Mapping[str, Topic]
) -> dict[str, ChunkHandler]:
    readers: dict[str, dict[str, EventHandler]] = defaultdict(dict)
    for each in handlers:
        if each.chunks and each.topic is not None and _mode(each, topics) == _BATCH:
            readers[each.topic][each.type] = each
    return {
        name: ChunkHandler(
            topic=name,
            page_rows=topics[name].page_rows,
            rule=rule_of(topics[name]),
            # Logs, metrics and middleware name a chunk by its topic.
            runs=replace(next(iter(found.values())), type=name),
            readers=found,
        )
        for name, found in readers.items()
    }


def misfits(
    handlers: Iterable[EventHandler], topics: Mapping[str, Topic], declared: Iterable[str]
) -> Iterator[str]:
    """The mismatches; `declared`: the topics that plugins declare."""
    functions: dict[str, set[str]] = defaultdict(set)
    types: dict[str, set[str]] = defaultdict(set)
    for each in handlers:
        mode, topic = _mode(each, topics), each.topic or ""
        if each.chunks:
            functions[topic].add(each.name)
            types[topic].add(each.type)
            if mode != _BATCH:
                found = "is not declared" if topic not in topics else f"is {mode}"
                yield (
                    f"{each.name} takes chunks of the topic {topic!r}, which {found}: declare it "
                    'with mode="batch", or take single events with @handlers.event.'
                )
        elif mode == _BATCH:
            yield (
                f"{each.name} takes single events of the topic {topic!r}, which is batch: take "
                "chunks with @handlers.chunk."
            )
    for topic, names in functions.items():
        if len(names) > 1:
            shown = ", ".join(sorted(names))
            yield f"the topic {topic!r} has several chunk handlers, {shown}: keep one."
        yield from _never_complete(topic, topics, types[topic])
    for topic in declared:
        if topics[topic].mode == _BATCH and topic not in functions:
            yield (
                f"the topic {topic!r} is batch, and its chunks have no handler: declare "
                f'@handlers.chunk("…", topic={topic!r}).'
            )


def _never_complete(name: str, topics: Mapping[str, Topic], types: set[str]) -> Iterator[str]:
    expect = topics[name].expect if name in topics else None
    if isinstance(expect, tuple) and (strangers := [each for each in expect if each not in types]):
        yield (
            f"the topic {name!r} expects {_quoted(strangers)}, and its handler takes "
            f"{_quoted(sorted(types))}: such a set is never complete; correct expect=, or name the "
            "type in @handlers.chunk."
        )


def _quoted(types: Iterable[str]) -> str:
    return ", ".join(map(repr, types))


def _mode(handler: EventHandler, topics: Mapping[str, Topic]) -> str:
    topic = topics.get(handler.topic or "")
    return "single" if topic is None else topic.mode
