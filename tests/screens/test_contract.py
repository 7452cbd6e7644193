"""Public addresses and JSON keys of the screens, held by `contract.txt`.

Operators keep links and scripts read keys, so CHANGELOG.md tells each change of the file.
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
from inboxd.store.operator_sessions import Looks
from inboxd.store.wakeups import HotTable
from tests.screens.visits import VISITS, write_rows
from tests.support import Database

pytestmark = pytest.mark.anyio

FILE: Final = Path(__file__).with_name("contract.txt")
# Keys below these are data: contents, or names of the rows that are counted.
OF_DATA: Final = {"payload", "headers", "result", "facts", "rules", "selection", "titles", "types"}


async def test_addresses_and_keys_are_those_that_were_agreed(
    database: Database, screens: httpx.AsyncClient
) -> None:
    """Write the file anew with INBOXD_TEST_SNAPSHOT=write, and commit the difference."""
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
    """`path methods role` for each route, and one line for each filter of a list."""
    settings, looks = Settings(), cast("Looks", None)  # no page is read
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
    """Paths of the keys in a JSON value, such as `events[].id`."""
    if isinstance(value, list):
        for each in value:
            yield from keys_of(each, f"{above}[]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            path = f"{above}.{key}".removeprefix(".")
            yield path
            if key not in OF_DATA:
                yield from keys_of(inner, path)
