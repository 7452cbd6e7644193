"""A page of receipts is written with the limits of its session, also behind a pooler."""

from datetime import timedelta

import pytest

from inboxd.inbound.page_writer import page_writer
from inboxd.store.pools import open_pool
from tests.support import Database
from tests.support.receipts import receipt
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio

# Records the session's setting when a receipt is written.
_SPY = """
create table public.spied as select current_setting('statement_timeout') as timeout with no data;
create function public.spy() returns trigger language plpgsql security definer as $$
begin
    insert into public.spied values (current_setting('statement_timeout'));
    return null;
end $$;
create trigger spy after insert on inboxd.receipts execute function public.spy();
"""


@pytest.mark.parametrize("pooler", [False, True])
async def test_a_statement_is_bounded_by_the_server(database: Database, *, pooler: bool) -> None:
    await database.execute(_SPY)
    changes = {"transaction_pooler": pooler, "statement_timeout": timedelta(seconds=7)}
    settings = settings_of(database).model_copy(update=changes)
    page = [receipt(), receipt()]
    async with open_pool(settings, "receiver", 1) as pool:
        write = page_writer(pool, 5.0)
        first = await write(page)
        # Stored receipts get their first answer again, after a statement that failed.
        assert (await write([*page, receipt()]))[:2] == first
    assert {row["timeout"] for row in await database.fetch("select * from public.spied")} == {"7s"}
