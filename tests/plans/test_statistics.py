"""Plans are good whatever the statistics say: pages are bounded in every state (promise 11).

Each statement is compared with itself on full, analyzed tables. A plan that reads an index or a
table from end to end reads at least one page for every forty rows, or one for each; a page of rows
joined with all rows, ten times that.
"""

import re

import pytest

from inboxd.embedded import Server
from tests.plans.statements import DAEMON, HANDLER, OPERATOR, PRODUCER, SQL
from tests.plans.statistics import COURSES, GOOD, POOLED, Touched, touched
from tests.support import Database, ExternalServer

pytestmark = pytest.mark.anyio

ROWS = 6_000
# Pages more than on good tables: dead versions, index pages of a larger table, and the rows of 192
# buckets, which are not read in a vacuumed table.
MORE = 60
MORE_OF = {
    "status_lines": 500,
    # explain_command runs several statements; each reads index pages of a larger table.
    **{
        f"explain_command{each}": 80
        for each in ("", ", running", ", dead", " of a key", " of a step")
    },
}
# In this state few rows of many are left, and deleted rows stay in the indexes: a statement that
# reads the highest of them passes over dead entries above it. One page for each is too much here as
# well; a walk over everything is found in the other states, with equally many live and dead rows.
HELD = "emptied under a snapshot, analyzed"
PASSED = {
    "find_events_settled": ROWS // 40,
    "find_events_settled, done then": ROWS // 40,
    "find_commands_settled": ROWS // 40,
    "explain_event of a chunk": ROWS // 10,  # half of the rows, each of them updated once
}
# These read from the beginning, where only a visit tells dead entries from live rows.
FROM_THE_BEGINNING = frozenset(
    {
        *("claim_events from the beginning", "claim_arrivals", "look_arrivals", "oldest_arrival"),
        *("survey_events", "survey_commands", "survey_arrivals", "survey_heads", "survey_lines"),
        *("lanes_events", "lanes_commands", "lanes_events, daemon", "lanes_commands, daemon"),
        *("count_keys", "explain_turn", "explain_turn of a key", "open_of_days"),
        *("held_sources", "erase_scan_held", "list_receipts", "match_receipts"),
        *("list_receipts of a source", "list_receipts, the next page"),
        *(
            "count_blocked_lines",
            "blocked_lines",
            "count_waiting",
            "due_heads",
            "release_topic_to_lanes",
        ),
        *("find_keys", "arrived_keys", "fail_unhandled_commands", "fail_unhandled_events"),
        *("match_commands", "match_commands to cancel, all", "match_events to replay"),
        *("match_ahead_events", "match_ahead_events, ordered"),
        *("match_ahead_commands", "match_ahead_commands, ordered"),
        "match_ahead_commands, of a moment",
        *("last_id_events", "last_id_commands", "doctor_sequences"),  # from the end
        "doctor_taken_keys",
        *("erase_scan_events", "erase_scan_commands", "purge_batches", "drain_duplicates"),
        *(
            "unfolded_batches",
            "list_batches",
            "recent_batches",
            "match_batches",
            "find_commands",
            "correlated",
            "find_events",
            "find_events, commands",
            "list_chunks",
        ),
        *("count_hot_events", "count_hot_commands", "count_day_events", "count_day_commands"),
        "hold_written, gather_rest, name_series, roll_up_*, remove_written",
        *("total_batches", "forget_batch_totals"),
        "hold_batch_changes, add_batch_totals, remove_batch_changes",
        *("status_lines", "stranded_events", "claim_limited from lanes", "take_events"),
        "count_streams",  # only for a list that is cut
    }
)


# These count or copy whole tables, as their purpose is.
_WHOLE = frozenset(
    {
        *("count_commands", "count_events", "doctor_folds"),
        *("count_commands_history", "count_events_history", "bodies_needed"),
        *("export_commands_csv", "export_commands_jsonl"),
        *("export_events_csv", "export_events_jsonl"),
        "uninstall_unsettled",
        *("tested_commands", "tested_events", "due_rows"),  # on a test's own small tables
    }
)
_READS = re.compile(
    r"\b(?:FROM|JOIN|USING|UPDATE|INTO) inboxd\.(?:events|commands|bodies|dedup|duplicates|replays"
    r"|batches|batch_changes|batch_progress|batch_totals|dependencies|steps|story|receipts"
    r"|held_receipts|stats\w*|samples|newest_sample|sampled_lanes|census\w*)"
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(COURSES, id="all states"),
        pytest.param(POOLED, id="pooled"),
    ],
)
async def found(
    request: pytest.FixtureRequest, server: Server | ExternalServer, template: Database
) -> Touched:
    """The pages of every statement in every state."""
    return await touched(server, template, ROWS, request.param)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [*DAEMON, *OPERATOR, *PRODUCER, *HANDLER])
async def test_pages_are_bounded(found: Touched, name: str) -> None:
    bound = 2 * found.pages[GOOD][name] + MORE_OF.get(name, MORE)
    walks = name in FROM_THE_BEGINNING
    passed = {HELD: PASSED.get(name, 0)}
    beyond = {
        state: pages[name]
        for state, pages in found.pages.items()
        if pages[name] > bound + (found.dead[state] if walks else passed.get(state, 0))
    }
    assert not beyond, f"at most {bound} pages"


@pytest.mark.usefixtures("found")
async def test_every_statement_has_a_case() -> None:
    """The statements on large tables have cases above."""
    assert SQL.meeting(_READS) - SQL.asked == _WHOLE
