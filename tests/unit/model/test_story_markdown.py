"""A story as Markdown: its figures, and texts of rows as inert text."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from inboxd.model.story import Member, Sketch
from inboxd.model.story_drawing import diagram
from inboxd.model.story_markdown import code, markdown
from inboxd.model.story_times import times_of, waterfall

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "[click](javascript:alert(3))",
    "![x](https://evil.example/x.png)",
    "<https://evil.example> https://evil.example www.evil.example a@evil.example @everyone",
    "a | b | c\n| d | e |",
    "\\| \\\\| \\\\\\| `|` ``|`` \\",
    "` `` ``` ~~~",
    "```\n# heading\n```",
    "***bold*** __bold__ ~~gone~~ &lt;b&gt; &#124;",
    "---\n===\n# x",
    "%%{init: {'securityLevel': 'loose', 'themeCSS': '*{}'}}%%",
    'x"]\nclick a callback "javascript:alert(4)"',
    "$$\\href{javascript:alert(5)}{x}$$",
    "\u202egnp.exe\u2066 \u200b\ufeff\0\x1b[31m",
    "   ",
)
_PLAIN = {
    *("text", "code_inline", "em_open", "em_close", "heading_open", "heading_close", "inline"),
    *("paragraph_open", "paragraph_close", "fence", "table_open", "table_close", "thead_open"),
    *("thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close"),
    *("td_open", "td_close"),
}


def story(text: str) -> tuple[str, str]:
    """Return the Markdown and the diagram of a story in which every foreign text is `text`."""
    top = Member(
        *("event", 1, uuid4(), text, text, "failed", 2, NOON),
        run_at=NOON + timedelta(seconds=1),
        error=text,
        source=text,
    )
    below = Member(
        *("command", 2, uuid4(), text, text, "succeeded", 1, NOON + timedelta(seconds=2)),
        finished_at=NOON + timedelta(seconds=6),
        seconds=1.5,
        run_at=NOON + timedelta(seconds=2),
    )
    sketch = Sketch(top)
    sketch.add(top.key, [below])
    sketch.note(below.key, f"step {text!r}")
    sketch.note(top.key, f"from {text}")
    node = sketch.draw()
    times = {each.key: times_of(each) for each in (top, below)}
    fall = waterfall(node, times, NOON + timedelta(seconds=30))
    return "\n".join(markdown(below.key, fall)), "\n".join(diagram(node))


def parsed(text: str) -> list[Token]:
    found = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    return [*found, *(child for each in found for child in each.children or ())]


def test_markdown_has_the_figures() -> None:
    told, drawn = story("school.send_email")
    assert told.splitlines()[0] == "# Story of command 2"
    assert "2 rows, from 2026-11-21 12:00:00 UTC on, 6s. In 1.5s of it rows were worked on." in told
    assert "| · command 2 | `school.send_email` | succeeded | +2s | 2.5s | 1.5s | 1 |" in told
    assert "| event 1 | `school.send_email` | failed | +0s |  |  | 2 |" in told, (
        "the time of its death is unknown"
    )
    assert drawn in told, "the diagram of the command line"


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_stay_text_in_markdown(text: str) -> None:
    tokens = parsed(story(text)[0])
    assert {token.type for token in tokens} <= _PLAIN
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1"]
    rows = [token.type for token in tokens if token.type in ("tr_open", "td_open", "th_open")]
    assert rows == ["tr_open", *["th_open"] * 8, *["tr_open", *["td_open"] * 8] * 2]
    assert len([token for token in tokens if token.type == "fence"]) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_code_cell_is_read_back(text: str) -> None:
    told = code(text)
    cells = [t for t in parsed(f"| a | b |\n|---|---|\n| {told} | c |") if t.type == "code_inline"]
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    assert [cell.content.replace("\\ |", "\\|").strip() for cell in cells] == (
        [shown.strip()] if shown.strip() else []
    ) or text.endswith("\\")


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_stay_text_in_a_diagram(text: str) -> None:
    lines = story(text)[1].splitlines()
    assert lines[0] == "flowchart TD"
    nodes = [line for line in lines if "[" in line]
    assert len(nodes) == 3, "two rows and a node for possible further rows"
    for line in nodes:
        label = line.split('["', 1)[1].rsplit('"]', 1)[0].replace("<br/>", "")
        assert not set(label) & set('"<>%`$\\'), line
    others = [line for line in lines[1:] if "[" not in line and "classDef" not in line]
    assert others == ["  event1 --> command2"]
