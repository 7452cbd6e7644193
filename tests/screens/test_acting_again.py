"""A form that is shown again after an invalid input keeps what was typed; its state is fresh."""

from pathlib import Path
from typing import Any

import pytest

from tests.screens.confirming import Asked, ReadForm, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.test_acting_forms import CASES, ActionCase
from tests.screens.test_acting_kinds import SETTING
from tests.screens.visiting import SAME, visiting
from tests.support import Database
from tests.support.rows import send
from tests.support.spooled import host_spool

pytestmark = pytest.mark.anyio

CHANGED = "It has changed since you opened the form"


def _asked(html: str) -> Asked:
    return Asked(Read(html).text, html, ReadForm(html))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path)
async def test_a_form_keeps_what_was_typed(
    database: Database, case: ActionCase, tmp_path: Path
) -> None:
    await database.execute(SETTING)
    at_hand: dict[str, Any] = {"spool": host_spool(tmp_path / "spool"), "local_role": "admin"}
    if case.before:
        await database.execute(case.before)
    async with visiting(database, **at_hand) as site, site.client() as ada:
        long = {**case.typed, "reason": "r" * 1001}
        refused = await confirm(ada, await ask(ada, case.path), **long)
        assert (refused.status_code, "at most 1000 characters" in refused.text) == (400, True)
        again = _asked(refused.text)
        assert {name: again.form.fields.get(name) for name in long} == long
        assert CHANGED not in again.text
        assert await audit(database) == []
        done = await confirm(ada, again, reason="mended")
        if done.status_code == 200 and case.status == 303:  # the changes are shown first
            done = await confirm(ada, _asked(done.text))
        assert done.status_code == case.status, Read(done.text).text


async def test_a_form_that_is_shown_again_has_the_state_of_now(database: Database) -> None:
    await send(database, 1)
    async with visiting(database, local_role="admin") as site, site.client() as ada:
        asked = await ask(ada, "/act/commands/prioritize?id=1")
        await database.execute(
            "update inboxd.commands set priority = 7, updated_at = clock_timestamp() where id = 1"
        )
        again = _asked((await confirm(ada, asked, priority="high", reason="first")).text)
        assert CHANGED in again.text
        kept = again.form.fields
        assert (kept["priority"], kept["reason"]) == ("high", "first")
        assert kept["seen"] != asked.form.fields["seen"]
        assert kept["once"] != asked.form.fields["once"]
        done = await confirm(ada, again, priority="3")
        assert done.status_code == 303, Read(done.text).text
        late = await ada.post(asked.form.action, data=asked.form.fields, headers=SAME)
        assert late.status_code == 409, "the form of before is not valid any more"


async def test_the_form_of_an_erasure_keeps_whom_it_names(database: Database) -> None:
    async with visiting(database, local_role="admin") as site, site.client() as ada:
        answer = await ada.get("/act/erase?entity_type=user&entity_id=")
        assert (answer.status_code, "give both" in answer.text) == (400, True)
        assert ReadForm(answer.text).fields["entity_type"] == "user"
