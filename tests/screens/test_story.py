"""Waiting and processing times of a known story: figures, bars, and export."""

import re
from typing import Any

import httpx
import pytest

from tests.screens.reading import document, read
from tests.screens.terminal import printed
from tests.support import Database
from tests.support.known_story import KnownStory, write_known_story

pytestmark = pytest.mark.anyio

# Waiting and processing in seconds; None if there was none, or if it has not ended.
SPENT = {
    "event": (1.5, 0.5),
    "batch": (None, None),
    "quick": (1, 3),
    "retried": (8, 2),
    "later": (15, 5),
    "dead": (5, None),
    "again": (1, 1),
    "running": (10, None),
    "pending": (None, None),
    "dying": (15, None),
}


@pytest.fixture
async def story(database: Database) -> KnownStory:
    return await write_known_story(database)


async def rows_of(screens: httpx.AsyncClient, story: KnownStory) -> dict[str, dict[str, Any]]:
    """JSON of the story's rows, by their names."""
    found: Any = await document(screens, f"/story/event/{story.event}")
    named = {(_kind(name), id_): name for name, id_ in story.rows.items()}
    return {named[row["kind"], row["id"]]: row for row in found["rows"]}


def _kind(name: str) -> str:
    return name if name in ("event", "batch") else "command"


def _cells(page: str) -> dict[str, list[str]]:
    """Waiting, processing and total time in the page's table, by the row's link."""
    table = page.partition('<table class="labelled fall">')[2].partition("</table>")[0]
    found = {}
    for row in table.split("<tr")[2:]:
        link = re.search(r'href="([^"]+)"', row)
        assert link is not None
        cells = re.findall(r'class="number">(.*?)</td>', row, re.DOTALL)
        found[link[1]] = [" ".join(re.sub(r"<[^>]+>", " ", each).split()) for each in cells]
    return found


async def test_each_row_has_its_waiting_and_processing_time(
    screens: httpx.AsyncClient, story: KnownStory
) -> None:
    rows = await rows_of(screens, story)
    assert {name: (row["waited"], row["worked"]) for name, row in rows.items()} == SPENT
    hows = {name: [each["how"] for each in row["stretches"]] for name, row in rows.items()}
    assert hows["later"] == ["early", "due", "worked"]
    assert hows["dead"] == hows["dying"] == ["due", "dead"]
    assert hows["batch"] == ["batch"]
    goes_on = {name for name, row in rows.items() if row["stretches"][-1]["until"] is None}
    assert goes_on == {"running", "pending", "dying"}
    assert [len(rows[name]["failed_at"]) for name in ("quick", "retried", "dying")] == [0, 2, 1]
    assert rows["again"]["notes"] == [f"replay of command {story.rows['dead']}"]


async def test_the_page_has_the_same_figures_beside_a_bar_of_each_row(
    screens: httpx.AsyncClient, story: KnownStory
) -> None:
    answer = await screens.get(f"/story/event/{story.event}", headers={"accept": "text/html"})
    page, cells = answer.text, _cells(answer.text)
    assert len(cells) == len(SPENT)
    assert cells[f"/events/{story.event}"] == ["1.5s", "500ms", "2s"]
    assert cells[f"/batches/{story.rows['batch']}"] == ["", "", "10s"]
    assert cells[f"/commands/{story.rows['retried']}"] == [
        "8s with earlier attempts: 2",
        "2s",
        "10s",
    ]
    assert cells[f"/commands/{story.rows['dead']}"] == ["5s with earlier attempts: 1", "", "17s"]
    waited, worked, whole = cells[f"/commands/{story.rows['running']}"]
    assert (waited, worked.endswith("so far"), whole.endswith("so far")) == ("10s", True, True)
    bars = page.count('<svg class="chart bars"')
    assert bars == len(SPENT)
    assert page.count('<path class="tick bad"') == 5
    assert page.count('<path class="bracket') == 1
    assert page.count('<path class="on ') == 3
    assert "style=" not in page


async def test_bars_stand_where_their_times_are(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """30 s are drawn 1,000 units wide."""
    story = await write_known_story(database, open_ended=False)
    page = (await screens.get(f"/story/event/{story.event}")).text
    row = page[page.index(f'href="/commands/{story.rows["later"]}"') :].partition("</tr>")[0]
    drawn = re.findall(r'<rect class="bar (\w+) \w+" x="([\d.]+)" width="([\d.]+)"', row)
    assert [(how, float(x), float(width)) for how, x, width in drawn] == [
        ("early", 333.3, 333.3),
        ("due", 666.7, 166.7),
        ("worked", 833.3, 166.7),
    ]
    assert "30s. For 12s of it" in (await read(screens, f"/story/event/{story.event}")).text


async def test_a_replay_in_place_is_marked_with_its_time(
    screens: httpx.AsyncClient, database: Database
) -> None:
    story = await write_known_story(database)
    await database.execute(
        "insert into inboxd.replays (kind, old_id, new_id, actor, at) values"
        " ('command', $1, $1, 'ana', $2)",
        *(story.rows["pending"], story.at(34)),
    )
    rows = await rows_of(screens, story)
    assert len(rows["pending"]["replayed_at"]) == 1
    page = (await screens.get(f"/story/event/{story.event}")).text
    assert page.count('<path class="tick busy"') == 1


async def test_a_story_is_exported_as_the_command_line_prints_it(
    screens: httpx.AsyncClient, database: Database
) -> None:
    story = await write_known_story(database, open_ended=False)
    path = f"/story/event/{story.event}"
    assert await document(screens, path) == await printed(database, "trace", "event", story.event)
    told = await screens.get(f"{path}.md")
    assert told.headers["content-type"] == "text/markdown; charset=utf-8"
    assert told.text.startswith(f"# Story of event {story.event}\n\n7 rows, from ")
    assert "| · · command" in told.text
    assert "| 8s | 2s | 3 |" in told.text
    assert "default-src 'none'" in told.headers["content-security-policy"]
    drawn = await screens.get(f"{path}.mmd")
    assert drawn.headers["content-type"] == "text/vnd.mermaid; charset=utf-8"
    assert drawn.text in told.text
    assert drawn.text.splitlines()[0] == "flowchart TD"
    for accepted, ending in (("text/markdown", "md"), ("text/vnd.mermaid", "mmd")):
        asked = await screens.get(path, headers={"accept": accepted})
        assert asked.text == (await screens.get(f"{path}.{ending}")).text
    found = await screens.get(f"/story/event/{story.uuid}.md")
    assert found.headers["location"] == f"{path}.md"
    links = (await read(screens, path)).links
    assert {f"{path}.md", f"{path}.mmd"} <= set(links)
    assert (await screens.get("/story/event/4711.md")).status_code == 404
    assert (await screens.get(f"/events/{story.event}.md")).status_code == 400


async def test_a_long_open_story_can_be_drawn_up_to_its_last_change(
    screens: httpx.AsyncClient, database: Database
) -> None:
    story = await write_known_story(database)
    assert "axis=happened" not in (await screens.get(f"/story/event/{story.event}")).text
    story = await write_known_story(database, minutes=60)
    path = f"/story/event/{story.event}"
    assert f"{path}?axis=happened" in (await read(screens, path)).links
    happened = await read(screens, f"{path}?axis=happened")
    assert "Draw it up to now" in happened.text
    assert path in happened.links
