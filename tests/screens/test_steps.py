"""Steps of a workflow on its page: drawn with their status, folded if there are many."""

import gzip
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest

from tests.screens.reading import document, read
from tests.screens.terminal import printed
from tests.support import Database
from tests.support.plans import told
from tests.support.rows import daemon_session, join

pytestmark = pytest.mark.anyio

# Limit of a page in bytes, compressed; style, script and mark are 20 kB more.
HEAVIEST = 40_000
DIAMOND = (
    {"name": "a"},
    {"name": "b", "after": "a"},
    {"name": "c", "after": {"step": "a", "when": "failed"}},
    {"name": "d", "after": ["b", {"step": "a", "when": "finished"}]},
)


async def _sent(database: Database, *steps: dict[str, Any]) -> int:
    given = [{"type": "test.noop", "queue": "default", **step} for step in steps]
    id_: int = await database.fetchval(
        "select id from inboxd.send_workflow('seed', $1)", orjson.dumps(given).decode()
    )
    return id_


async def _many(database: Database, count: int) -> int:
    """A workflow of layers of ten steps, of three types."""
    steps: list[dict[str, Any]] = [{"name": "s0"}]
    for n in range(1, count):
        after = sorted({f"s{max(n - 10 - extra, 0)}" for extra in range(2)})
        steps.append({"name": f"s{n}", "type": f"test.kind_{n % 3}", "after": after})
    return await _sent(database, *steps)


async def _settle(database: Database, flow: int, name: str) -> None:
    """The step succeeds, which releases the steps that wait for its success."""
    async with daemon_session(database) as session:
        worker = await join(session)
    ((id_,),) = await database.fetch(
        "update inboxd.commands set status = 'running', fence = 1, worker_id = $3 where command_id"
        " = (select member from inboxd.steps where batch_id = $1 and name = $2) returning id",
        *(flow, name, worker),
    )
    await database.execute("select inboxd.settle_command($1, 1, $2, 0.25)", id_, worker)


def _nodes(page: str) -> dict[str, tuple[str, str]]:
    """Title of each node of the drawing: its link and its class."""
    drawn = page.partition('<svg class="graph"')[2].partition("</table>")[0]
    found = re.findall(
        r'<a class="node (\S+) [^"]*" href="([^"]+)"[^>]*><title>(.*?)</title>', drawn
    )
    return {title: (href, look) for look, href, title in found}


async def test_steps_are_drawn_with_their_state_and_their_conditions(
    screens: httpx.AsyncClient, database: Database
) -> None:
    flow = await _sent(database, *DIAMOND)
    page = (await screens.get(f"/batches/{flow}")).text
    assert _nodes(page)["a (test.noop): pending"][1] == "pending"
    assert len(re.findall(r'<path class="arrow (\w+)"', page)) == 4
    await _settle(database, flow, "a")
    await _settle(database, flow, "b")
    left = await database.fetchval(
        "select count(*) from inboxd.dependencies d join inboxd.steps s on s.member = d.waiting"
    )
    assert left == 0, "a condition that is met is deleted"
    page = (await screens.get(f"/batches/{flow}")).text
    looks = {title: look for title, (_, look) in _nodes(page).items()}
    assert looks == {
        "a (test.noop): succeeded": "succeeded",
        "b (test.noop): succeeded": "succeeded",
        "c (test.noop): cancelled": "cancelled",
        "d (test.noop): pending": "pending",
    }
    arrows = sorted(re.findall(r'<path class="arrow (\w+)"', page))
    assert arrows == ["failed", "finished", "succeeded", "succeeded"], "arrows stay"
    assert "style=" not in page
    links = {href for href, _ in _nodes(page).values()}
    ids = await database.fetch(
        "select id from inboxd.story where kind = 'command' and batch_id = $1", flow
    )
    assert links == {f"/commands/{row['id']}" for row in ids}
    assert links <= set((await read(screens, f"/batches/{flow}")).links), "the table has them too"


async def test_conditions_of_steps_are_in_the_json_and_on_the_command_line(
    screens: httpx.AsyncClient, database: Database
) -> None:
    flow = await _sent(database, *DIAMOND)
    await _settle(database, flow, "a")
    found: Any = await document(screens, f"/batches/{flow}")
    after = {step["name"]: step["after"] for step in found["steps"]}
    assert after == {
        "a": [],
        "b": ["a succeeded"],
        "c": ["a failed"],
        "d": ["a finished", "b succeeded"],
    }
    assert [step["waits"] for step in found["steps"]] == [[], [], [], ["b succeeded"]]
    assert found == await printed(database, "workflows", "show", flow)


async def test_a_workflow_of_older_code_has_the_arrows_that_are_left(
    screens: httpx.AsyncClient, database: Database
) -> None:
    flow = await _sent(database, *DIAMOND)
    await database.execute("update inboxd.steps set after = null")
    page = await read(screens, f"/batches/{flow}")
    assert "An older release wrote this workflow" in page.text
    await _settle(database, flow, "a")
    text = (await screens.get(f"/batches/{flow}")).text
    assert re.findall(r'<path class="arrow (\w+)"', text) == ["succeeded"]


@pytest.mark.parametrize("count", [300, 1_000])
async def test_many_steps_are_light(
    screens: httpx.AsyncClient, database: Database, count: int
) -> None:
    flow = await _many(database, count)
    answer = await screens.get(f"/batches/{flow}", headers={"accept": "text/html"})
    assert len(gzip.compress(answer.content)) <= HEAVIEST
    nodes = _nodes(answer.text)
    assert len(re.findall('<a class="node ', answer.text)) <= 300
    if count == 300:
        assert len(nodes) == 300
        return
    folded = re.findall(r'class="node waiting many" href="([^"]+)#steps"', answer.text)
    assert len(set(folded)) == 100, "one folded node for each layer but the first"
    assert "Steps of the same status" in answer.text


async def test_a_folded_node_leads_to_its_steps_and_their_list_has_pages(
    screens: httpx.AsyncClient, database: Database
) -> None:
    steps = [{"name": f"s{n:03}"} for n in range(320)]
    flow = await _sent(database, *steps, {"name": "z", "after": "s000", "type": "test.last"})
    page = (await screens.get(f"/batches/{flow}")).text
    nodes = _nodes(page)
    (title,) = [each for each in nodes if "\N{MULTIPLICATION SIGN}" in each]
    assert title == "320 \N{MULTIPLICATION SIGN} test.noop: pending"
    path = nodes[title][0].replace("&amp;", "&")
    assert path == (
        f"/batches/{flow}?layer=0&to_layer=0&step_status=pending&step_type=test.noop#steps"
    )
    seen = set[str]()
    while path:
        found = await screens.get(path)
        seen |= set(re.findall(r"<strong>(s\d+|z)</strong>", found.text))
        assert "Steps chosen: 320." in found.text
        (path,) = re.findall(r'rel="next" href="([^"]+#steps)"', found.text) or [""]
        path = path.replace("&amp;", "&")
    assert seen == {step["name"] for step in steps}
    alone = await read(screens, f"/batches/{flow}?layer=1")
    assert "Steps chosen: 1." in alone.text
    refused = await screens.get(f"/batches/{flow}?layer=x")
    assert refused.status_code == 400


async def test_names_of_steps_are_text(screens: httpx.AsyncClient, database: Database) -> None:
    names = (
        "<script>alert(1)</script>",
        "\"'><img src=x onerror=alert(2)>",
        "\u202egnp.exe",
        "a succeeded",
        "w" * 255,
    )
    flow = await _sent(
        database,
        *(
            {"name": name, "type": name[:200], "after": list(names[:n])}
            for n, name in enumerate(names)
        ),
    )
    page = (await screens.get(f"/batches/{flow}")).text
    main = page.partition("<main")[2].partition("</main>")[0]
    assert "<script" not in main
    assert "<img" not in main
    assert len(re.findall('<a class="node ', main)) == len(names)
    assert len(re.findall('<path class="arrow succeeded"', main)) == 10
    assert "\u202e" not in main.partition('<svg class="graph"')[2].partition("<table")[0].replace(
        "<title>\u202egnp.exe (\u202egnp.exe)", ""
    )


async def test_a_thousand_steps_are_not_compared_with_each_other(database: Database) -> None:
    """Sessions of inboxd join by nested loops only, so a join of two lists would be quadratic."""
    flow = await _many(database, 1_000)
    await database.execute("analyze")
    async with daemon_session(database) as session:
        nodes = await told(
            session,
            session.fetch("batch_steps", flow, 1_000, datetime.now(UTC) - timedelta(days=1)),
        )
    assert max(node["Actual Rows"] for node in nodes) <= 4_000
    removed = [node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in nodes]
    assert sum(removed) <= 4_000
