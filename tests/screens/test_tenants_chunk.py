"""Why an event of a chunk waits: the reason tells a visitor no count of other tenants' events."""

import re

import pytest

from inboxd.admin.screens.roles import Role
from tests.screens.reading import Read
from tests.screens.visiting import sign_in, user, visiting
from tests.support import Database

pytestmark = pytest.mark.anyio

# A chunk of seven events, two of them of tenant acme; it is due in a day.
CHUNK = """
insert into inboxd.topics (name, mode, source, rules)
values ('few', 'batch', 'plugin', '{"count": 50}');
insert into inboxd.events (type, topic, mode, ordering_key, tenant)
select 'a.b', 'few', 'batch', 'k', case when n < 3 then 'acme' else 'zeta' end
  from generate_series(1, 7) n;
update inboxd.events set position = id, head = id = (select min(id) from inboxd.events),
       run_at = now() + interval '1 day';
"""


@pytest.mark.parametrize("tenants", [["acme"], ["acme", "none"]])
async def test_role_by_tenant_no_count_of_a_chunk_shows(
    database: Database, tenants: list[str]
) -> None:
    await database.execute(CHUNK)
    ours = await database.fetchval("select min(id) from inboxd.events")
    theirs = await database.fetchval("select max(id) from inboxd.events")
    users = [{**user(each.name.lower(), each.name.lower()), "tenants": tenants} for each in Role]
    async with visiting(database, users=[*users, user("all", "viewer")]) as site:
        async with site.client() as client:
            await sign_in(client, "all")
            assert (
                "of 50 events"
                in (await client.get(f"/events/{ours}.json")).json()["why"]["sentence"]
            )
        for role in Role:
            async with site.client() as client:
                await sign_in(client, role.name.lower())
                why = (await client.get(f"/events/{ours}.json")).json()["why"]
                assert why["causes"], role
                assert all(each["facts"].keys() <= {"at"} for each in why["causes"]), (role, why)
                page = Read((await client.get(f"/events/{ours}")).text).text
                for told in (page, why["sentence"]):
                    assert not re.search(r"chunk has|\d+ of \d+|\d+ events", told), (role, told)
                assert (await client.get(f"/events/{theirs}.json")).status_code == 404
