"""The page's section on FastAPI is a service: it answers, and its worker handles its rows."""

import importlib.util
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from tests.support import Database, eventually

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/frameworks.md").read_text()
SECTION = PAGE.partition("\n## FastAPI\n")[2].partition("\n## ")[0]


@pytest.fixture
def service(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """The code of the page as a module, on the test's database."""
    blocks = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
    file = tmp_path / "service_of_the_page.py"
    file.write_text("\n\n".join(blocks))
    monkeypatch.setenv("SHOP_DSN", database.dsn)
    monkeypatch.setenv("SHOP_DEVELOPMENT", "1")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[file.stem]


# The constraint is checked at the commit, not before.
ORDERS = """
    CREATE TABLE titles (title text PRIMARY KEY);
    INSERT INTO titles VALUES ('good');
    CREATE TABLE orders (id serial, title text REFERENCES titles DEFERRABLE INITIALLY DEFERRED)
"""


@asynccontextmanager
async def lived(service: ModuleType) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service within the service's lifespan."""
    transport = httpx.ASGITransport(service.app, raise_app_exceptions=False)
    async with (
        service.lifespan(service.app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        yield client


async def test_service_of_the_page_emits_sends_and_waits(
    service: ModuleType, database: Database
) -> None:
    await database.execute(ORDERS)
    async with lived(service) as client:
        placed = await client.post("/orders", json={"title": "good"})
        assert (placed.status_code, placed.json()) == (201, {"order_id": 1})
        refused = await client.post("/orders", json={"title": "bad"})
        assert refused.status_code == 500, "the service commits before it responds"
        quoted = await client.post("/orders/7/quote")
        assert quoted.json() == {"order_id": 7, "cents": 700}
        failed = await client.post("/orders/-1/quote")
        assert (failed.status_code, "does not exist" in failed.json()["detail"]) == (502, True)
        assert (await client.get(f"/quotes/{'0' * 32}")).status_code == 404
    emitted = await database.fetch(
        "SELECT payload FROM inboxd.events UNION ALL SELECT payload FROM inboxd.events_history"
    )
    assert [row["payload"] for row in emitted] == ['{"order_id": 1}']


async def test_slow_request_is_answered_with_a_location(
    service: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first no worker runs."""
    monkeypatch.delenv("SHOP_DEVELOPMENT")
    async with lived(service) as client:
        late = await client.post("/orders/7/quote")
        assert (late.status_code, late.json()) == (202, {"status": "pending"})
        where = late.headers["Location"]
        assert (await client.get(where)).status_code == 202
    monkeypatch.setenv("SHOP_DEVELOPMENT", "1")
    async with lived(service) as client:

        async def is_answered() -> bool:
            return (await client.get(where)).status_code == 200

        await eventually(is_answered)
        assert (await client.get(where)).json() == {"order_id": 7, "cents": 700}
