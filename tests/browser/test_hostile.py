"""Hostile strings in each field that senders and operators fill: each page shows them as text."""

from urllib.parse import urlencode

import orjson
import pytest
from playwright.async_api import expect

from tests.browser.site import Site, crawl
from tests.browser.tabs import Tabs, overflow
from tests.support import Database
from tests.support.rows import no_bounds

pytestmark = pytest.mark.anyio

STRINGS = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "<svg/onload=alert(3)>",
    "' autofocus onfocus=alert(4) x='",
    "javascript:alert(5)",
    "{{7*7}}{% raw %}${alert(6)}",
    "</main></title><iframe srcdoc='<script>alert(7)</script>'>",
    "\u202egnp.exe\u2066 \u200b\ufeff",
    "\U0001f469\u200d\U0001f393" * 3 + "e\u0301",
    "../../etc/passwd?a=b#c%00",
)
LONG = "w" * 65_000
DEEP = "[" * 500 + "]" * 500


async def _fill(site: Site) -> None:
    """Write events and commands, dead and pending, and all named rows with each string."""
    database = site.database
    for string in STRINGS:
        error = orjson.dumps([{"attempt": 1, "error": string, "traceback": string}]).decode()
        payload = orjson.dumps({string: string, "long": LONG}).decode()
        for status, fingerprint in (("failed", f"x{string}"), ("pending", None)):
            await database.execute(
                "insert into inboxd.events (topic, type, tenant, entity_type, entity_id, source,"
                " correlation_id, payload, headers, errors, status, attempts, fingerprint)"
                " values ($1, $1, $1, $1, $1, $1, $1, $2::text::jsonb, $2::text::jsonb,"
                " $3::text::jsonb, $4, 1, $5)",
                *(string, payload, error, status, fingerprint),
            )
            await database.execute(
                "insert into inboxd.commands (queue, type, tenant, entity_type, entity_id,"
                " correlation_id, payload, errors, status, attempts, fingerprint)"
                " values ($1, $1, $1, $1, $1, $1, $2::text::jsonb, $3::text::jsonb, $4, 1, $5)",
                *(string, payload, error, status, fingerprint),
            )
        await database.execute(
            "insert into inboxd.controls (kind, name, actor, reason) values ('queue', $1, $1, $1)",
            string,
        )
        await database.execute(
            "insert into inboxd.breakers (name, state, opens, open_until, reason, uses)"
            " values ($1, 'open', 1, now() + interval '1 hour', $1, array[$1])",
            string,
        )
        await database.execute(
            "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
            " declares, beat_at, heartbeat) values (gen_random_uuid(), $1, $1, 1, $1, array[$1],"
            " array[$1], array[$1], $1, now() + interval '10 min', 9)",
            string,
        )
        await database.execute(
            "insert into inboxd.declared_types (kind, type, title, description)"
            " values ('event', $1, $1, $1), ('command', $1, $1, $1)",
            string,
        )
    await database.execute(
        "insert into inboxd.events (type, payload) values ('deep', $1::text::jsonb)", DEEP
    )
    await database.execute("delete from inboxd.newest_sample")


async def test_no_string_is_more_than_text(site: Site, tabs: Tabs) -> None:
    async with no_bounds(site.database):
        await _fill(site)
    found = await crawl(site)
    assert found.dead == []
    tab = await tabs.open("/")
    for string in STRINGS[:3]:
        assert string in await tab.locator("main").inner_text()
    rows = [*found.addresses["/events/{id}"], *found.addresses["/commands/{id}"]]
    deep = await site.database.fetchval("select id from inboxd.events where type = 'deep'")
    asked_for = [f"{row.partition('?')[0]}?payload=1" for row in (*rows, f"/events/{deep}")]
    for asked in (*(each for some in found.addresses.values() for each in some), *asked_for):
        await tab.goto(asked)
        assert await tab.locator("main").count() == 1, asked
        assert await tab.locator("iframe, main script, [onerror], [onload]").count() == 0, asked
        assert tabs.wrong == []


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_no_string_is_more_than_text_on_a_confirmation(site: Site, tabs: Tabs) -> None:
    async with no_bounds(site.database):
        await _fill(site)
    tab = await tabs.open("/")
    for string in STRINGS:
        for path, about in await _confirmations(site.database, string):
            asked = f"/act/{path}?{urlencode(about)}"
            await tab.goto(asked)
            assert await tab.locator("form.confirm").count() == 1, asked
            assert await tab.locator("iframe, main script, [onerror], [onload]").count() == 0, asked
            links = tab.locator("main a")
            leads = await links.evaluate_all("(all) => all.map((one) => one.href)")
            assert {each for each in leads if not each.startswith(site.url)} == set(), asked
            assert tabs.wrong == [], asked
        # The result of an action, with a reason and names that are hostile; a name that is not
        # printable is refused.
        await tab.goto(f"/act/resume?{urlencode({'kind': 'queue', 'name': string})}")
        await tab.locator("[name=reason]").fill(string)
        await tab.locator("form.confirm .button.main").click()
        if string.isprintable():
            await expect(tab.locator("#told")).to_contain_text("Resumed")
        else:
            await expect(tab.get_by_role("alert")).to_contain_text("must be printable")
            tabs.wrong[:] = [each for each in tabs.wrong if "status of 400" not in each]
        assert await tab.locator("iframe, main script, [onerror], [onload]").count() == 0, string
    assert tabs.wrong == []


async def _confirmations(database: Database, string: str) -> list[tuple[str, dict[str, str]]]:
    """The paths and queries of confirmations that name the string, or a row that has it."""
    found: list[tuple[str, dict[str, str]]] = []
    for table, status, verbs in (
        ("events", "failed", ("replay", "dismiss")),
        ("events", "pending", ("reschedule",)),
        ("commands", "failed", ("replay", "dismiss")),
        ("commands", "pending", ("reschedule", "cancel", "prioritize", "edit")),
    ):
        id_ = await database.fetchval(
            f"select max(id) from inboxd.{table} where type = $1 and status = $2",
            *(string, status),
        )
        found += [(f"{table}/{verb}", {"id": id_, "to": string}) for verb in verbs]
    for table in ("events", "commands"):
        found.append((f"{table}/dismiss-all", dict.fromkeys(("type", "tenant", "error"), string)))
    return [
        *found,
        ("commands/cancel-all", {"type": string}),
        ("failures/archive", {"group": f"x{string}"}),
        ("pause", {"kind": "type", "name": string}),
        ("resume", {"kind": "queue", "name": string}),
        ("breaker", {"name": string, "mode": "closed"}),
        ("erase", {"tenant": string}),
        ("send", {"type": string}),
        ("emit", {"type": string}),
    ]


async def test_names_without_a_break_fit_a_telephone(site: Site, tabs: Tabs) -> None:
    name = "n" * 120
    database = site.database
    async with no_bounds(database):
        await database.execute(
            "insert into inboxd.commands (queue, type, tenant, payload, errors, status, attempts,"
            " fingerprint) values ($1, $1, $1, '{}', jsonb_build_array(jsonb_build_object('error',"
            " repeat($1, 9))), 'failed', 1, $1)",
            name,
        )
        await database.execute(
            "insert into inboxd.schedules (name, source, cron, zone, missed, kind, type,"
            " schema_version, lane, priority, payload, next_at) values ($1, $1, '0 3 * * *',"
            " 'America/Argentina/ComodRivadavia', 'skip', 'command', $1, 1, $1, 0, '{}', now())",
            name,
        )
        await database.execute(
            "insert into inboxd.breakers (name, state, opens, open_until, reason, uses)"
            " values ($1, 'open', 2147483647, now() + interval '400 days', $1, array[$1])",
            name,
        )
        await database.execute(
            "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
            " declares, beat_at, heartbeat, in_flight, events_in_flight) values"
            " (gen_random_uuid(), $1, $1, 2147483647, $1, array[$1], array[$1], array[$1], $1,"
            " now() + interval '10 min', 9, 2147483647, 2147483640)",
            name,
        )
    await database.execute("delete from inboxd.newest_sample")
    tab = await tabs.open("/", width=360)
    of_lists = ("/commands", "/failures", "/queues", "/types", "/schedules", "/breakers")
    for address in ("/", *of_lists, "/workers", f"/failures/{name}", f"/queues/{name}"):
        await tab.goto(address)
        assert await overflow(tab) <= 0, address
        values = tab.locator("main .tile .value:not(:has(time))")
        heights = await values.evaluate_all("(all) => all.map((one) => one.offsetHeight)")
        assert max(heights, default=0) < 48, address  # numbers stay on one line
