"""What others rely on: addresses that people keep, and the keys of the pages' JSON.

Both are written down in `contract.txt`, so that a change of them is seen, and told in CHANGELOG.md.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import httpx
import pytest
from starlette.routing import Route

from inboxd.admin.screens.access.gate import Gate
from inboxd.admin.screens.actions import ACTIONS
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.screens.pages.row_filters import FILTERS, lane_of
from inboxd.admin.tokens import Tokens
from inboxd.settings import Settings
from inboxd.store.session import Looks
from inboxd.store.wakeups import HotTable
from tests.screens.visits import VISITS, write_rows
from tests.support import Database

pytestmark = pytest.mark.anyio

FILE: Final = Path(__file__).with_name("contract.txt")
# What lies below these is data: contents, or what is counted by its name.
OF_DATA: Final = {"payload", "headers", "result", "facts", "rules", "selection", "titles", "types"}


async def test_addresses_and_keys_are_those_that_were_agreed(
    database: Database, screens: httpx.AsyncClient
) -> None:
    """A change is seen: run with INBOXD_TEST_SNAPSHOT=write, and commit what changed."""
    rows = await write_rows(database)
    lines = ["# addresses", *addresses()]
    for page, paths in VISITS.items():
        keys: set[str] = set()
        for path in paths:
            answer = await screens.get(
                path.format(**rows),
                headers={"accept": "application/json"},
                follow_redirects=True,
            )
            assert answer.is_success, path
            keys |= set(keys_of(answer.json()))
        lines += ["", f"# JSON of {page}", *sorted(keys)]
    text = "\n".join(lines) + "\n"
    if os.environ.get("INBOXD_TEST_SNAPSHOT") == "write":
        FILE.write_text(text)
    assert text == FILE.read_text()


def addresses() -> list[str]:
    """Each path with its methods, of pages and actions with the role that they ask for; filters."""
    settings, looks = Settings(), cast("Looks", None)  # nothing is read
    gate = Gate(settings.admin, Tokens(settings.admin.tokens))
    roles = {screen.path: screen.role.name.lower() for screen in SCREENS}
    roles |= {action.path: action.role.name.lower() for action in ACTIONS}
    told = []
    for route in Screens(settings, looks, gate, SCREENS).application().routes:
        assert isinstance(route, Route)
        methods = "+".join(sorted((route.methods or set()) - {"HEAD"}))
        told.append(" ".join((route.path, methods, roles.get(route.path, ""))).rstrip())
    tables: tuple[HotTable, ...] = ("events", "commands")
    told += [f"/{table}?{name}" for table in tables for name in (*FILTERS, lane_of(table))]
    return sorted(told)


def keys_of(value: object, above: str = "") -> Iterator[str]:
    """The keys of a JSON value, each behind those that it lies below."""
    if isinstance(value, list):
        for each in value:
            yield from keys_of(each, f"{above}[]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            path = f"{above}.{key}".removeprefix(".")
            yield path
            if key not in OF_DATA:
                yield from keys_of(inner, path)
