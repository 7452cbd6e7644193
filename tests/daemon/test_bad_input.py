"""Bad input (promise 10): a visible dead letter with its reason; other rows are processed."""

import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.daemon.inbox import KINDS, Inbox, Kind, errors_of
from tests.support import Config, Worker
from tests.support.rows import no_bounds

pytestmark = pytest.mark.anyio

# Deep enough to break recursive readers; PostgreSQL itself stops at about 6,000.
_DEEP = 5_000


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """A short grace period for unhandled types."""
    return {
        "worker": {"unhandled_grace": "1s"},
        "maintenance": {"interval": "1s"},
        "events": {"unhandled": "dead"},
    }


async def _one_error(inbox: Inbox, kind: Kind, row_id: int) -> dict[str, Any]:
    """The only entry in the errors of a dead letter."""
    row = await inbox.dead(kind, row_id)
    errors = errors_of(row)
    assert len(errors) == 1
    assert await inbox.notes(row_id) == []
    return errors[0]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unhandled_type_is_a_dead_letter(inbox: Inbox, kind: Kind) -> None:
    unhandled = await inbox.write(kind, "nobody.serves_this")
    served = await inbox.write_many(kind, "test.ledger", [{"n": n} for n in range(3)])
    await inbox.succeeded(kind, *served)
    error = await _one_error(inbox, kind, unhandled)
    assert "NoHandler" in error["error"]
    assert "'nobody.serves_this'" in error["error"]
    assert "install a plugin" in error["error"]
    assert (await inbox.dead(kind, unhandled))["attempts"] == 0


async def test_a_payload_that_does_not_fit_names_the_field(inbox: Inbox) -> None:
    bad, good = await inbox.write_many(
        "event",
        "test.strict",
        [{"name": "n", "ages": [1, "secret"]}, {"name": "n", "ages": [1]}],
        schema_version=2,
    )
    error = await _one_error(inbox, "event", bad)
    assert error["path"] == "ages.1"
    assert error["attempt"] == 1
    assert error["error"].startswith("PayloadError: ages.1: ")
    assert "secret" not in json.dumps(error)
    await inbox.succeeded("event", good)


async def test_a_version_that_is_too_new_names_the_plugin_to_deploy(inbox: Inbox) -> None:
    newer = await inbox.write("event", "test.strict", {"name": "n", "ages": []}, schema_version=3)
    error = await _one_error(inbox, "event", newer)
    assert "version 3 is too new" in error["error"]
    assert "testplugin" in error["error"]


async def test_an_older_version_goes_through_its_upcaster(inbox: Inbox) -> None:
    good = await inbox.write("event", "test.strict", {"name": "n", "age": 3}, schema_version=1)
    bad = await inbox.write("event", "test.strict", {"name": "n"}, schema_version=1)
    await inbox.succeeded("event", good)
    error = await _one_error(inbox, "event", bad)
    assert "upcaster from version 1 raised KeyError" in error["error"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [None, "null", "1", '"text"', "[1, 2]", "true"])
async def test_a_payload_may_be_any_json(inbox: Inbox, kind: Kind, text: str | None) -> None:
    [row_id] = await inbox.write_json(kind, "test.any", [text])
    settled = await inbox.settled(kind, row_id)
    value = json.loads(text or "null")
    if kind == "command":
        assert json.loads(settled["result"] or "null") == value
    else:
        assert await inbox.notes(row_id) == [("any", row_id, f"{type(value).__name__} {value}")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["null", "1", "[]", '"x"'])
async def test_json_that_is_not_an_object_is_refused_where_one_is_declared(
    inbox: Inbox, kind: Kind, text: str
) -> None:
    [row_id] = await inbox.write_json(kind, "test.ledger", [text])
    assert (await _one_error(inbox, kind, row_id))["error"].startswith("PayloadError")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"n": 1e400}', id="huge"),
        pytest.param('{"n": 1.5}', id="fraction"),
        pytest.param('{"n": 1e30, "wait": 1e999}', id="huge-float"),
        pytest.param('{"n": ' + "[" * _DEEP + "]" * _DEEP + "}", id="deep"),
    ],
)
async def test_numbers_and_nesting_beyond_all_bounds_are_dead_letters(
    inbox: Inbox, kind: Kind, text: str
) -> None:
    [bad] = await inbox.write_json(kind, "test.ledger", [text])
    good = await inbox.write(kind, "test.ledger")
    assert (await _one_error(inbox, kind, bad))["error"].startswith("PayloadError")
    await inbox.succeeded(kind, good)


@pytest.mark.parametrize("kind", KINDS)
async def test_nul_in_text_is_refused_when_it_is_written(inbox: Inbox, kind: Kind) -> None:
    with pytest.raises(asyncpg.UntranslatableCharacterError):
        await inbox.write(kind, "test.any", "a\0b")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
async def test_payloads_of_50_mb_are_processed_one_at_a_time(
    inbox: Inbox, worker: Worker, kind: Kind
) -> None:
    before = _peak(worker)
    ids = [await inbox.write(kind, "test.any", "x" * 50_000_000) for _ in range(3)]
    for row_id in ids:
        settled = await inbox.settled(kind, row_id)
        assert settled["payload"] is None
        assert settled["body_id"] is not None
    # For one payload at a time: the text, the driver's copy and the decoded value.
    assert _peak(worker) - before < 450


@pytest.mark.parametrize("kind", KINDS)
async def test_rows_from_before_the_bounds_spoil_no_page(inbox: Inbox, kind: Kind) -> None:
    """Texts longer than producers may write now: the rows run, fail, are retried and settled."""
    long, columns = "x" * 1_000_000, ("tenant", "entity_id", "correlation_id", "traceparent")
    async with no_bounds(inbox.database):
        [old] = await inbox.write_many(
            kind, "test.ledger", [{"n": 1}], **dict.fromkeys(columns, long)
        )
        [fan] = await inbox.write_many(
            kind, "test.fan", [{"sends": 1}], **dict.fromkeys(columns, long)
        )
        [bad] = await inbox.write_many(
            kind, "test.ledger", [{"n": []}], **dict.fromkeys(columns, long)
        )
    good = await inbox.write_many(kind, "test.ledger", [{"n": n} for n in range(3)])
    await inbox.succeeded(kind, old, fan, *good)
    await inbox.dead(kind, bad)
    settled = await inbox.settled(kind, old)
    assert [settled[column] == long for column in columns] == [True] * 4
    [child] = await inbox.children(kind, fan)
    assert child["tenant"] == "x" * 2000
    await inbox.succeeded("command", child["id"])


async def test_headers_of_any_size_reach_the_handler(inbox: Inbox) -> None:
    """A claim leaves out headers that are large, compressed, or both."""
    texts = [
        "small",
        "c" * 16_000,
        "".join(chr(33 + n * n % 90) for n in range(9_000)).replace('"', ""),
    ]
    texts = [text.replace("\\", "") for text in texts]
    ids = []
    for text in texts:
        headers = json.dumps({"h": text, "n": 1})
        ids += await inbox.write_many("event", "test.headers", [0], headers=headers)
    async with no_bounds(inbox.database):
        headers = json.dumps({"h": "o" * 3_000_000})
        ids += await inbox.write_many("event", "test.headers", [1], headers=headers)
    await inbox.succeeded("event", *ids)
    notes = [note for _, _, note in await inbox.notes(*ids)]
    assert notes == [
        *(f"{{'h': {len(text)}, 'n': 1}} 0" for text in texts),
        "{'h': 3000000} 0",
    ]


def _peak(worker: Worker) -> float:
    """The peak memory of the worker, in MB."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1000
