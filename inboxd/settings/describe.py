"""Showing settings: a list for people, and the settings that a reload may change.

Owns which settings a running daemon adopts at SIGHUP. Promises that no secret is shown. Known
limit: a changed secret shows as changed, without its value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from inboxd.model.masking import MASK, redact
from inboxd.settings.sections import Settings

# Code reads these again for each page or log line; the others shape connections and tasks.
_RELOADABLE = frozenset(
    {
        "log.level",
        "log.rows",
        "events.page_rows",
        "events.page_bytes",
        "events.page_time",
        "commands.page_rows",
        "commands.concurrency",
        "commands.in_flight_bytes",
        "admin.tokens",
        "admin.users",
    }
)
# Tables that are adopted as a whole.
_LIVE_TABLES = ("queues.", "breakers.", "inbound.webhooks.")
# Lists that mean "all" when they are empty.
_ALL = ("worker.plugins", "worker.queues", "worker.topics")
# The DSN is shown without its password; other secrets are masked as a whole.
_DSN = "database.dsn"
_OF_SOURCES = {
    "addresses": "(all)",
    "nats_subjects": "(all)",
    "topics": "(those that subscribe to the type)",
}


@dataclass(frozen=True, slots=True)
class Changes:
    """Dotted keys that differ. live: they apply at once; restart: they need a restart."""

    live: tuple[str, ...]
    restart: tuple[str, ...]


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """List every setting as (dotted key, shown value, source), secrets masked."""
    return [
        (key, _show(key, value), settings.source_of(key))
        for key, value in _flatten(settings.model_dump(by_alias=True))
    ]


def reloadable(old: Settings, new: Settings) -> Changes:
    """Sort the changed settings by whether SIGHUP may apply them."""
    before, after = (dict(_flatten(s.model_dump(by_alias=True))) for s in (old, new))
    changed = [key for key in before | after if before.get(key) != after.get(key)]
    if old.database.password_is_from_file and new.database.password_is_from_file:
        changed = [key for key in changed if key != "database.password"]  # read at each connection
    return Changes(
        live=tuple(key for key in changed if _is_live(key)),
        restart=tuple(key for key in changed if not _is_live(key)),
    )


def taken_over(old: Settings, new: Settings) -> Settings:
    """`old`, with the reloadable settings of `new`."""
    sections: dict[str, dict[str, object]] = {}
    for section, _, name in (key.partition(".") for key in _RELOADABLE):
        sections.setdefault(section, {})[name] = getattr(getattr(new, section), name)
    changed = {
        section: getattr(old, section).model_copy(update=values)
        for section, values in sections.items()
    }
    inbound = old.inbound.model_copy(update={"webhooks": new.inbound.webhooks})
    tables = {"queues": new.queues, "breakers": new.breakers, "inbound": inbound}
    return old.model_copy(update={**changed, **tables})


def _is_live(key: str) -> bool:
    return key in _RELOADABLE or key.startswith(_LIVE_TABLES)


def _flatten(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _show(key: str, value: object) -> str:
    match value:
        case None:
            return "-"
        case SecretStr():
            # `redact` would show parts of another secret that contains ://.
            return redact(value.get_secret_value()) if key == _DSN else MASK
        case bool():
            return str(value).lower()
        case tuple():
            return ", ".join(map(_item, value)) or _nothing(key)
        case _:
            return str(value)


def _nothing(key: str) -> str:
    if key in _ALL:
        return "(all)"
    return _OF_SOURCES.get(key.rpartition(".")[2], "(none)")


def _item(value: object) -> str:
    """Format a list item: a name, a source's key, a token or a user, without its secret."""
    if not isinstance(value, Mapping):
        return str(value)
    if "token" in value:
        return f"{value['name']} ({value['access']})"
    if "password_hash" in value:
        return f"{value['name']} ({value['role']})"
    from_file = value["secret_file"] and f"secret from {value['secret_file']}"
    said = [
        from_file or (value["secret"] and "secret") or (value["public_key"] and "public key"),
        value["not_before"] and f"from {value['not_before'].isoformat()}",
        value["not_after"] and f"until {value['not_after'].isoformat()}",
    ]
    return f"{value['id']} ({', '.join(filter(None, said)) or 'no secret'})"
