"""Settings are shown with their source; a reload reports the settings that it applies."""

from typing import Any

from inboxd.settings import (
    describe,
    load,
    reloadable,
    taken_over,
)


def test_description_names_each_value_with_its_source(written: Any) -> None:
    path = written('[worker]\nlease = "90s"\n[types."a.b"]\nretry = { attempts = 2 }\n')
    shown = {key: (value, source) for key, value, source in describe(load(path, {}))}
    assert shown["worker.lease"] == ("1m30s", str(path))
    assert shown["types.a.b.retry.attempts"] == ("2", str(path))
    assert shown["events.page_bytes"] == ("32MiB", "default")
    assert shown["database.schema"] == ("inboxd", "default")
    assert shown["worker.queues"] == ("(all)", "default")


def test_reload_applies_limits_and_names_the_rest() -> None:
    old = load(None, {"INBOXD_QUEUES__EMAIL__CONCURRENCY": "4"})
    new = load(
        None,
        {
            "INBOXD_LOG__LEVEL": "debug",
            "INBOXD_COMMANDS__CONCURRENCY": "7",
            "INBOXD_QUEUES__REPORTS__CONCURRENCY": "1",
            "INBOXD_DATABASE__PASSWORD": "new",
            "INBOXD_WORKER__LEASE": "60s",
        },
    )
    changes = reloadable(old, new)
    queues = {key for key in changes.live if key.startswith("queues.")}
    assert {"queues.email.concurrency", "queues.reports.concurrency"} <= queues
    assert set(changes.live) - queues == {"log.level", "commands.concurrency"}
    assert set(changes.restart) == {"database.password", "worker.lease"}
    assert reloadable(old, old) == type(changes)((), ())
    now = taken_over(old, new)
    assert reloadable(now, new) == type(changes)((), changes.restart)
    assert reloadable(old, now) == type(changes)(changes.live, ())
