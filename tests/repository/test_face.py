"""`import inboxd` offers the names of a plugin, and imports no dependency."""

import subprocess
import sys

import pytest

import inboxd
from inboxd import testing


def test_every_public_name_exists() -> None:
    for name in inboxd.__all__:
        assert getattr(inboxd, name) is not None
    assert dir(inboxd) == inboxd.__all__ == sorted(inboxd.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Handler'"):
        _ = inboxd.Handler  # type: ignore[attr-defined]


def test_import_of_inboxd_imports_no_dependency() -> None:
    heavy = "{'pydantic', 'anyio', 'orjson', 'asyncpg', 'structlog'}"
    program = f"import sys, inboxd, inboxd.model.lineage; print({heavy} & set(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "set()"


def test_every_name_for_tests_exists() -> None:
    for name in testing.__all__:
        assert getattr(testing, name) is not None
    assert dir(testing) == testing.__all__ == sorted(testing.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Inbox'"):
        _ = testing.Inbox  # type: ignore[attr-defined]
