"""A new operator works with the screens alone: with real workers, e-mails and dead letters.

Each test begins on the overview and continues by clicks; it opens no other address.

`make screenshots` writes the pictures of docs/screens.md by this test.
"""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, Page, expect

from inboxd.store.plugin_migrations import migrate
from school.stage.mailbox import Mailbox, open_mailbox
from tests.browser.site import Site, serving
from tests.browser.tabs import Tabs
from tests.support import Config, Database, StartWorker, eventually
from tests.support.rows import create_ledger, settings_of
from tests.support.verdicts import safety
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

SCHOOL: Final[Config] = {
    "worker": {"plugins": ["school"]},
    "queues.email": {"concurrency": 4},
}
CLASS: Final = """
INSERT INTO school.institutions (name) VALUES ('Example School');
INSERT INTO school.campuses (institution_id, name) VALUES (1, 'Campus');
INSERT INTO school.courses (campus_id, name) VALUES (1, 'Computing');
INSERT INTO school.disciplines (institution_id, name) VALUES (1, 'Algebra');
INSERT INTO school.teachers (institution_id, name) VALUES (1, 'Grace');
INSERT INTO school.classes (course_id, discipline_id, teacher_id, name) VALUES (1, 1, 1, '1a');
INSERT INTO school.students (course_id, term, address)
     VALUES (1, 1, 'ada@school.example'), (1, 1, 'bob@school.example');
INSERT INTO school.enrolments VALUES (1, 1), (1, 2);
INSERT INTO school.activities (class_id, title) VALUES (1, 'Exercise 1');
"""
DEAD: Final = """
insert into inboxd.commands (type, queue, status, attempts, errors, fingerprint)
select 'test.ledger', 'default', 'failed', 1,
       '[{"error": "ConnectionRefusedError: the ledger does not answer"}]', 'a1b2c3d4e5f6'
  from generate_series(1, $1)
"""
ROWS: Final = 10_000
# Milliseconds until an open page shows the work of workers.
_LIVE: Final = 1000 * patient()


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Site]:
    """The screens on the database of this test."""
    async with serving(database) as site:
        yield site
    await database.end_sessions()


@pytest.fixture
async def tab(browser: Browser, site: Site) -> AsyncIterator[Page]:
    """The tab in which the operator works."""
    tabs = Tabs(browser, site.url)
    yield await tabs.open(width=1280)
    await tabs.close()


@pytest.fixture
async def mailbox(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mailbox]:
    """A mail server that does not know Bob yet."""
    async with open_mailbox() as (box, address):
        monkeypatch.setenv("SCHOOL_SMTP", address)
        box.unknown = {"bob@school.example"}
        yield box


async def _picture(tab: Page, folder: Path, name: str) -> None:
    """Save a screenshot of the tab, without hover effects."""
    folder = Path(os.environ.get("INBOXD_TEST_SCREENSHOTS", folder))
    await tab.mouse.move(0, 0)
    await tab.screenshot(path=folder / f"guide-{name}.png")


async def _click(tab: Page, name: str, *, role: str = "link") -> None:
    """Click the first element of the page's content with this name."""
    await tab.locator("main").get_by_role(role, name=name).first.click()  # type: ignore[arg-type]


async def test_an_email_that_failed_is_found_and_sent_and_its_teacher_is_told(
    tab: Page, database: Database, start_worker: StartWorker, mailbox: Mailbox, tmp_path: Path
) -> None:
    await migrate(settings_of(database), ["school"])
    await database.execute(CLASS)
    await start_worker(SCHOOL)
    await database.execute(
        "insert into inboxd.events (type, payload) values"
        " ('activity.published', '{\"activity_id\": 1}')"
    )

    # Find it: the overview shows a dead letter that waits for a decision.
    newest = tab.locator("main section", has_text="Newest failures")
    await expect(newest.get_by_role("link").first).to_contain_text(
        "refused for good", timeout=_LIVE
    )
    dead = tab.locator("main .tile", has_text="Dead letters")
    await expect(dead).to_contain_text("wait for a decision", timeout=_LIVE)  # sampled every 10 s
    await _picture(tab, tmp_path, "overview")
    await newest.get_by_role("link").first.click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("refused for good")
    await _picture(tab, tmp_path, "failure")

    # Understand it: its error, the reason why it does not run, and the batch that waits for it.
    await tab.locator("main .tile", has_text="Latest").get_by_role("link").click()
    await expect(tab.locator("main .banner")).to_contain_text("To replay it")
    await _picture(tab, tmp_path, "command")
    await _click(tab, "batch 1")
    await expect(tab.locator("main .head .status")).to_have_text("failed", timeout=_LIVE)
    await _picture(tab, tmp_path, "batch")

    # Send it: the mail server knows Bob now. The batch lists its dead letters.
    mailbox.unknown.clear()
    letters = tab.locator("main section:has(> h2:has-text('Dead letters'))")
    await letters.locator("a[href^='/commands/']").first.click()
    await expect(tab.locator("main .banner")).to_contain_text("To replay it")
    await _click(tab, "Replay")
    await tab.locator("[name=reason]").fill("Bob has a mailbox now")
    await expect(tab.locator("main")).to_contain_text("batch")
    await _picture(tab, tmp_path, "replay")
    await tab.locator("form.confirm").get_by_role("button").first.click()
    await expect(tab.locator("#told")).to_contain_text("runs again as")

    # The batch heals and the teacher is told; the open page shows both without a reload.
    await _click(tab, "batch 1")
    await expect(tab.locator("main .head .status")).to_have_text("succeeded", timeout=_LIVE)
    teacher = tab.locator("main section", has_text="Next command").get_by_role("link").first
    await expect(teacher).to_be_visible()
    await _picture(tab, tmp_path, "healed")
    await teacher.click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("teacher", ignore_case=True)
    await expect(tab.locator("main .head .status")).to_have_text("succeeded", timeout=_LIVE)
    assert mailbox.delivered == {
        ("ada@school.example", "New activity: Exercise 1"): 1,
        ("bob@school.example", "New activity: Exercise 1"): 1,
    }
    audit = await database.fetch("select action, reason, count from inboxd.audit")
    assert [tuple(line) for line in audit] == [("replay", "Bob has a mailbox now", 1)]


async def _follow(tab: Page, beside: str, to: str, heading: str) -> None:
    """Click the first link beside these words whose address begins with `to`."""
    link = tab.locator(f"main :is(tr, li, p):has-text('{beside}') a[href^='{to}']").first
    await link.click()
    await tab.wait_for_url(f"**{to}*")
    title = tab.get_by_role("heading", level=1)
    await expect(title).to_contain_text(re.compile(heading, re.IGNORECASE))


async def test_links_lead_from_the_last_event_to_the_activity_and_back(
    tab: Page, database: Database, start_worker: StartWorker, mailbox: Mailbox
) -> None:
    mailbox.unknown.clear()
    await migrate(settings_of(database), ["school"])
    await database.execute(CLASS)
    await start_worker(SCHOOL)
    await database.execute(
        "insert into inboxd.events (type, payload) values"
        " ('activity.published', '{\"activity_id\": 1}')"
    )
    delivered = "select count(*) = 1 from inboxd.events_history where type = 'activity.delivered'"
    await eventually(lambda: database.fetchval(delivered))

    await tab.get_by_role("link", name="Events", exact=True).first.click()
    await _follow(tab, "delivered", "/events/", "delivered")
    # Back: each page links to its origin.
    await _follow(tab, "It came from a", "/commands/", "teacher")
    await _follow(tab, "of a batch had ended", "/batches/", "activity 1")
    await _follow(tab, "It came from a", "/commands/", "announce")
    await _follow(tab, "It came from a", "/events/", "published")
    # Forward: each page links to the rows that it created.
    await _follow(tab, "announce", "/commands/", "announce")
    await _follow(tab, "batch", "/batches/", "activity 1")
    await tab.locator("#members a[href^='/commands/']").first.click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("email", ignore_case=True)
    await _follow(tab, "It belongs to a batch", "/batches/", "activity 1")
    await _follow(tab, "teacher", "/commands/", "teacher")
    await _follow(tab, "delivered", "/events/", "delivered")
    # The story shows all of them.
    await _click(tab, "Story")
    story = tab.locator("main")
    for words in ("published", "announce", "teacher", "delivered"):
        await expect(story).to_contain_text(words, ignore_case=True)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_ten_thousand_dead_letters_are_replayed_with_a_canary_while_a_worker_is_killed(
    tab: Page, database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    await create_ledger(database)
    await database.execute(DEAD.replace("$1", str(ROWS)))
    first = await start_worker()

    await tab.get_by_role("link", name="Failures", exact=True).first.click()
    await _click(tab, "the ledger does not answer")
    await expect(tab.locator("main .tile", has_text="Dead letters")).to_contain_text("10,000")
    await _click(tab, "Replay all that match")
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("Replay all that match")
    await expect(tab.locator("input[name=canary]")).to_be_checked()
    await tab.locator("[name=reason]").fill("the ledger is back")
    await tab.locator("[name=rate]").fill("500")
    await tab.locator("[name=rows]").fill(str(ROWS))
    await _picture(tab, tmp_path, "bulk-action")
    await tab.locator("form.confirm").get_by_role("button").first.click()
    await expect(tab.locator("#told")).to_contain_text("Until then it can be undone here")

    # Kill the worker in the middle; another worker continues.
    done = tab.locator("main .tile", has_text="Done")
    await expect(done).to_contain_text(re.compile(r"[1-9],\d{3}"), timeout=2 * _LIVE)
    await _picture(tab, tmp_path, "progress")
    first.kill()
    killed_at = await database.fetchval("select done from inboxd.actions")
    assert 0 < killed_at < ROWS
    await start_worker()
    await expect(tab.locator("main .head .mark")).to_have_text("completed", timeout=4 * _LIVE)
    await expect(done).to_contain_text("10,000")

    async def all_ran() -> bool:
        return bool(await database.fetchval("select not exists (select from inboxd.commands)"))

    await eventually(all_ran, 120)
    with safety():
        [ran] = await database.fetch(
            "select count(*), count(distinct row_id) from ledger where kind = 'command'"
        )
        assert tuple(ran) == (ROWS, ROWS)
        [replays] = await database.fetch(
            "select count(*), count(distinct old_id), count(distinct new_id) from inboxd.replays"
        )
        assert tuple(replays) == (ROWS, ROWS, ROWS)
        audit = await database.fetch("select action, reason, count from inboxd.audit")
        assert [tuple(line) for line in audit] == [("replay", "the ledger is back", ROWS)]
        ended = await database.fetch(
            "select status, count(*) from inboxd.commands_history group by 1 order by 1"
        )
        assert dict(map(tuple, ended)) == {"failed": ROWS, "succeeded": ROWS}
