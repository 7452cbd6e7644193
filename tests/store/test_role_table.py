"""The privileges of each of the database's roles on each table, sequence and function.

The tables below are written by hand, and the tests compare them with the catalogue. A new table or
function is denied to all roles until it has a row here. SECURITY.md describes the same in words.
"""

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support import Database

pytestmark = pytest.mark.anyio

ROLES = ("producer", "receiver", "worker", "operator", "viewer")
# S, I, U, D: SELECT, INSERT, UPDATE, DELETE of the table; small letters: of some columns only.
RELATIONS = """
relation              producer receiver worker   operator viewer
actions               -        -        SIUD     Isu      s
archived_failures     -        -        SIUD     IUDs     s
audit                 -        -        SIu      Isu      s
batch_changes         -        -        SIUD     s        s
batch_progress        -        -        SIUD     si       s
batch_totals          -        -        SIUD     s        s
batches               -        -        SIUD     su       s
bodies                -        -        SI       s        -
breaker_changes       -        -        SID      s        s
breakers              -        -        SIUD     su       s
census                -        -        SIUD     s        s
census_tenants        -        -        SIUD     s        s
census_types          -        -        SIUD     s        s
commands              si       -        SIDu     su       s
commands_history      -        -        SI       s        s
controls              -        S        SIUD     IUDs     s
declared_types        -        -        SIUD     s        s
dedup                 -        -        SUD      -        -
dependencies          -        -        SIUD     Ds       s
duplicates            -        -        SUD      -        -
emitted_types         -        -        -        -        -
endpoints             -        -        SIUD     su       s
events                si       -        SIDu     su       s
events_history        -        -        SI       s        s
every_partition       -        -        S        s        s
held_receipts         -        -        S        s        s
held_sources          -        -        S        s        s
imports               -        -        -        -        -
intakes               -        -        SIUD     s        s
kept_receipts         -        -        S        s        s
key_rates             -        -        SIUD     s        s
leases                -        -        SIU      s        s
limits                -        -        SIUD     s        s
message_readers       -        -        SIUD     s        s
newest_sample         -        -        SIUD     s        s
notices               -        -        SIUD     s        s
partitions            -        -        S        s        s
plugin_migrations     -        -        S        s        s
receipts              -        -        S        s        s
received_sources      -        -        S        s        s
receivers             -        SIUD     SIUD     s        s
relay_leases          -        -        SIUD     s        s
replays               -        -        SIUD     Is       s
retired               -        -        SIUD     s        s
sampled_lanes         -        -        SIUD     s        s
samples               -        -        SIUD     s        s
schedules             -        -        SIUD     s        s
schema_functions      -        S        S        s        s
schema_migrations     -        S        S        s        s
sent_webhooks         -        -        SUD      -        -
statement_checks      -        -        SIUD     s        s
statement_days        -        -        SIUD     s        s
statement_duplicates  -        -        SIUD     s        s
statement_findings    -        -        SIUD     su       s
statement_lines       -        -        SIUD     s        s
statement_moves       -        -        SIUD     s        s
statement_positions   -        -        SIUD     s        s
statement_receipts    -        -        SIUD     s        s
statement_settled     -        -        SIUD     s        s
statement_sources     -        -        SIUD     s        s
statement_strays      -        -        SIUD     s        s
statement_trimmed     -        -        SIUD     s        s
stats                 -        -        SIUD     s        s
stats_days            -        -        SIUD     s        s
stats_hours           -        -        SIUD     s        s
stats_minutes         -        -        SIUD     s        s
stats_series          -        -        SIUD     s        s
stats_tenant_days     -        -        SIUD     s        s
stats_tenant_hours    -        -        SIUD     s        s
stats_tenants         -        -        SIUD     s        s
stats_written         -        -        SIUD     s        s
steps                 -        -        SIUD     s        s
story                 -        -        S        s        s
stream_positions      -        -        SIUD     su       s
subscriptions         -        -        SIUD     Ds       s
topics                -        -        SIUD     s        s
trimmed               -        -        SIUD     s        s
workers               -        -        SIUD     s        s
"""
# The columns of each small letter above, but for those that operators and viewers read:
# tests/store/test_readers.py lists these by the columns that are withheld.
COLUMNS = """
producer S commands            id command_id
producer I commands            command_id queue type schema_version payload priority ordering_key
                               unique_key tenant entity_type entity_id max_attempts run_at deadline
                               expires_at correlation_id causation_id traceparent
producer S events              id event_id topic
producer I events              event_id topic mode type schema_version source ordering_key
                               dedup_key tenant entity_type entity_id payload headers
                               correlation_id causation_id traceparent occurred_at run_at
worker   U audit               count
worker   U commands            priority status attempts crashes fence run_at deadline expires_at
                               worker_id started_at line_at cancel_requested errors fingerprint
                               progress updated_at suspect_group lone_crashes alone_fence
worker   U events              mode status attempts crashes run_at errors fingerprint updated_at
                               position head
operator U actions             status goes_on_as note failures next_at ended_at
operator U audit               count
operator I batch_progress      batch_id
operator U batches             ending needs starting closed_at updated_at
operator U breakers            mode actor forced_for version changed_at state open_until opens
                               probe_by probe_until
operator U commands            status attempts crashes cancel_requested run_at deadline expires_at
                               priority updated_at
operator U endpoints           enabled disabled_at disabled_by disabled_reason failing_since
                               version changed_at
operator U events              status attempts crashes run_at updated_at
operator U statement_findings  accepted_at accepted_by
operator U stream_positions    position begins identity fence reader stored_at
"""
# Tables of producers and receivers draw numbers by identity columns, which need no grant.
SEQUENCES = """
sequence              producer receiver worker   operator viewer
commands_flag         -        -        SU       -        -
events_flag           -        -        SU       -        -
events_id_seq         -        -        S        -        -
"""
# x: may be called. Functions without x are called by triggers and other functions only.
FUNCTIONS = """
function              producer receiver worker   operator viewer
accept_event          -        -        -        -        -
add_continuations     -        -        -        -        -
add_to_batch          x        -        x        -        -
advance_import        x        -        x        -        -
answered              -        x        x        -        -
await_end             -        -        -        -        -
batches_changed       -        -        -        -        -
begin_census          -        -        x        -        -
beginning             -        -        x        -        -
body_hash             -        -        x        -        -
bucket_of             -        -        x        -        -
claim_limited         -        -        x        -        -
close_batch           x        -        x        x        -
command_result        x        -        x        -        -
commands_failed       -        -        -        -        -
commands_inserted     -        -        -        -        -
commands_settled      -        -        -        -        -
contradiction         -        -        -        -        -
controls_changed      -        -        -        -        -
copy_event_to         -        -        -        -        -
declared_key          -        -        -        -        -
declared_queue        -        -        -        -        -
dedup_conflict        -        -        -        -        -
delivery_id           -        -        -        -        -
dismiss_events        -        -        x        x        -
drop_partition        -        -        x        -        -
edge_verdict          -        -        -        -        -
edit_payload          -        -        x        -        -
emit_event            x        -        x        -        -
emit_event_arrays     x        -        x        -        -
emit_events           x        -        x        -        -
end_members           -        -        -        -        -
end_waiting           -        -        -        -        -
endpoints_emitted     -        -        -        -        -
erase_receipts        -        -        -        -        -
erased                -        x        x        -        -
events_emitted        -        -        -        -        -
events_inserted       -        -        -        -        -
fill_queue            -        -        -        -        -
finalize_partition    -        -        x        -        -
fold_batch            -        -        x        x        -
headers_weight        -        -        x        -        -
held_topics           -        -        x        -        -
hold_ending           -        -        x        x        -
hold_in_order         -        -        -        -        -
hold_open_batch       -        -        x        -        -
hold_unique_keys      -        -        x        x        -
index_partition       -        -        x        -        -
insert_members        -        -        -        -        -
is_erased             -        -        x        -        -
is_of_login           -        -        -        -        -
is_taking             -        -        -        -        -
is_unhandled          -        -        x        x        x
judge_event           -        -        -        -        -
keep_added_schedule   -        -        -        -        -
keep_bodies           -        -        x        -        -
keep_receipts         -        -        x        -        -
keep_sources          -        -        -        -        -
kept_command          -        -        -        -        -
leave_partition       -        -        x        -        -
light_headers         -        -        x        -        -
make_partition        -        -        -        -        -
make_partitions       -        -        x        -        -
make_receipt_days     -        x        x        -        -
new_uuid              x        -        x        -        -
number_given          -        -        x        x        x
open_batch            x        -        x        -        -
open_import           x        -        x        -        -
open_intakes          -        -        x        -        -
page_of_held          -        -        -        -        -
pick_lines            -        -        x        -        -
pick_suspects         -        -        x        -        -
purge_audit           -        -        x        -        -
put_away              -        -        x        x        -
put_body              -        -        -        -        -
receipt_time          -        -        x        x        x
receive               -        x        x        -        -
refuse_bytes          -        -        -        -        -
refuse_change         -        -        -        -        -
refuse_deliveries     -        -        -        -        -
refuse_delivery       -        -        -        -        -
refuse_headers        -        -        -        -        -
refuse_long           -        -        -        -        -
refuse_long_key       -        -        -        -        -
refuse_ragged         -        -        -        -        -
refuse_source         -        -        -        -        -
refuse_taken          -        -        -        -        -
refuse_transition     -        -        -        -        -
refuse_unknown_keys   -        -        -        -        -
refuse_webhook        -        -        -        -        -
release               -        -        x        -        -
release_receipts      -        -        x        x        -
remember              -        -        -        -        -
replace_payload       -        -        x        -        -
replay_commands       -        -        x        x        -
resend_deliveries     -        -        x        x        -
resolve_unique_keys   -        -        x        -        -
retired_partition     -        -        -        -        -
return_partition      -        -        x        -        -
send_after            x        -        x        -        -
send_batch            x        -        x        -        -
send_command          x        -        x        -        -
send_command_arrays   x        -        x        -        -
send_commands         x        -        x        -        -
send_webhook          x        -        x        -        -
send_webhook_arrays   x        -        x        -        -
send_webhooks         x        -        x        -        -
send_workflow         x        -        x        -        -
settle_command        -        -        x        -        -
settled_commands      -        -        x        -        -
settled_rows          -        -        -        -        -
stand_in_line         -        -        -        -        -
start_members         -        -        -        -        -
state_of_database     -        -        x        -        -
stay_in_line          -        -        -        -        -
still_running         -        -        x        -        -
store_messages        -        -        x        -        -
succeed_head          -        -        -        -        -
suspect               -        -        -        -        -
take_events           -        -        x        -        -
trim_partition        -        -        x        -        -
type_patterns         -        -        -        -        -
unasked_members       -        -        -        -        -
unsent_keys           -        -        -        -        -
unwritten_event       -        -        -        -        -
waiting_sources       -        -        -        -        -
wake_commands         -        -        x        -        -
workflow_edges        -        -        -        -        -
write_emitted         -        -        -        -        -
write_events          -        -        x        -        -
write_received        -        -        -        -        -
write_webhooks        -        -        x        -        -
"""

_LETTERS = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}
_RELATIONS_THERE = """
select c.relname::text as name, pg_get_userbyid(c.relowner)::text as owner, r.role,
       array(select p from unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) as p
              where has_table_privilege(r.role, c.oid, p)) as whole,
       array(select p from unnest(array['SELECT', 'INSERT', 'UPDATE']) as p
              where has_any_column_privilege(r.role, c.oid, p)) as parts,
       array(select p from unnest(array['TRUNCATE', 'REFERENCES', 'TRIGGER']) as p
              where has_table_privilege(r.role, c.oid, p)) as changes
  from pg_class c cross join unnest($1::text[]) as r(role)
 where c.relnamespace = 'inboxd'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
   and not c.relispartition
"""
_COLUMNS_THERE = """
select r.role, c.relname::text as name, p.privilege, array_agg(a.attname::text) as columns
  from pg_class c cross join unnest($1::text[]) as r(role)
 cross join unnest(array['SELECT', 'INSERT', 'UPDATE']) as p(privilege)
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace = 'inboxd'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
   and not c.relispartition and not has_table_privilege(r.role, c.oid, p.privilege)
   and has_column_privilege(r.role, c.oid, a.attnum, p.privilege)
 group by 1, 2, 3
"""
_SEQUENCES_THERE = """
select c.relname::text as name, r.role,
       array(select p from unnest(array['SELECT', 'UPDATE', 'USAGE']) as p
              where has_sequence_privilege(r.role, c.oid, p)) as rights
  from pg_class c cross join unnest($1::text[]) as r(role)
 where c.relnamespace = 'inboxd'::regnamespace and c.relkind = 'S'
"""
# Functions of one name have a row for each signature, as in inboxd.name(integer,text).
_FUNCTIONS_THERE = """
select case count(*) over (partition by p.proname, r.role) when 1 then p.proname
            else replace(p.oid::regprocedure::text, ' ', '_') end::text as name,
       r.role, has_function_privilege(r.role, p.oid, 'EXECUTE') as may
  from pg_proc p cross join unnest($1::text[]) as r(role)
 where p.pronamespace = 'inboxd'::regnamespace
"""


def table(text: str) -> dict[str, dict[str, set[str]]]:
    """The letters of each role for each table or function."""
    head, *lines = [line.split() for line in text.strip().splitlines()]
    assert tuple(head[1:]) == ROLES
    return {
        name: {role: set(cell) - {"-"} for role, cell in zip(ROLES, cells, strict=True)}
        for name, *cells in lines
    }


def in_letters(row: asyncpg.Record) -> set[str]:
    whole, parts = {*row["whole"]}, {*row["parts"]}
    named = _LETTERS.items()
    return {x for x, p in named if p in whole} | {
        x.lower() for x, p in named if p in parts and p not in whole
    }


def columns_of(text: str) -> dict[tuple[str, str, str], set[str]]:
    """The listed columns by role, privilege and table; a line that is indented continues one."""
    found = {}
    for line in re.sub(r"\n +", " ", text.strip()).splitlines():
        role, letter, name, *columns = line.split()
        found[role, _LETTERS[letter], name] = set(columns)
    return found


@pytest.fixture
async def stranger(database: Database) -> AsyncIterator[str]:
    """A role of the server without any grants."""
    name = f"{database.name}_stranger"
    await database.execute(f"CREATE ROLE {name}")
    yield name
    await database.execute(f"DROP ROLE {name}")


async def test_tables_have_the_listed_privileges(database: Database) -> None:
    wanted = table(RELATIONS)
    rows = await database.fetch(_RELATIONS_THERE, [f"inboxd_{each}" for each in ROLES])
    there = {row["name"] for row in rows}
    assert there - wanted.keys() == set(), "a new table: add a row with its privileges here"
    assert wanted.keys() - there == set()
    for row in rows:
        name, role = row["name"], row["role"].removeprefix("inboxd_")
        assert in_letters(row) == wanted[name][role], f"{role} and {name}"
        assert row["changes"] == [], f"{role} and {name}"


async def test_partial_privileges_are_of_the_listed_columns(database: Database) -> None:
    rows = await database.fetch(_COLUMNS_THERE, [f"inboxd_{each}" for each in ROLES])
    there = {
        (row["role"].removeprefix("inboxd_"), row["privilege"], row["name"]): set(row["columns"])
        for row in rows
    }
    read = {key for key in there if key[:2] in {("operator", "SELECT"), ("viewer", "SELECT")}}
    assert len(read) > 100
    assert {key: columns for key, columns in there.items() if key not in read} == columns_of(
        COLUMNS
    )


def test_each_small_letter_of_the_table_has_its_columns() -> None:
    small = {
        (role, _LETTERS[letter.upper()], name)
        for name, roles in table(RELATIONS).items()
        for role, letters in roles.items()
        for letter in letters
        if letter.islower() and (letter != "s" or role not in ("operator", "viewer"))
    }
    assert small == columns_of(COLUMNS).keys()


async def test_sequences_have_the_listed_privileges(database: Database) -> None:
    wanted = table(SEQUENCES)
    for row in await database.fetch(_SEQUENCES_THERE, [f"inboxd_{each}" for each in ROLES]):
        name, role = row["name"], row["role"].removeprefix("inboxd_")
        meant = wanted[name][role] if name in wanted else set()
        assert {p for p in row["rights"] if p != "USAGE"} == {_LETTERS[x] for x in meant}, name
        # USAGE draws numbers; a role that may set a sequence may have it.
        assert ("USAGE" in row["rights"]) <= ("U" in meant), f"{role} and {name}"


async def test_functions_have_the_listed_privileges(database: Database) -> None:
    wanted = table(FUNCTIONS)
    rows = await database.fetch(_FUNCTIONS_THERE, [f"inboxd_{each}" for each in ROLES])
    there = {row["name"] for row in rows}
    assert there - wanted.keys() == set(), "a new function: add a row with its callers here"
    assert wanted.keys() - there == set()
    for row in rows:
        name, role = row["name"], row["role"].removeprefix("inboxd_")
        assert row["may"] is bool(wanted[name][role]), f"{role} and {name}"


async def test_role_without_grants_has_no_privilege(database: Database, stranger: str) -> None:
    rows = await database.fetch(_RELATIONS_THERE, [stranger])
    assert len(rows) == len(table(RELATIONS))
    assert [row["name"] for row in rows if row["whole"] or row["parts"] or row["changes"]] == []
    sequences = await database.fetch(_SEQUENCES_THERE, [stranger])
    assert [row["name"] for row in sequences if row["rights"]] == []
    assert [
        row["name"] for row in await database.fetch(_FUNCTIONS_THERE, [stranger]) if row["may"]
    ] == []
    for right in ("USAGE", "CREATE"):
        asked = "select has_schema_privilege($1, 'inboxd', $2)"
        assert not await database.fetchval(asked, stranger, right)


async def test_only_the_owner_changes_the_schema(database: Database) -> None:
    for role in ROLES:
        asked = "select has_schema_privilege($1, 'inboxd', $2)"
        assert await database.fetchval(asked, f"inboxd_{role}", "USAGE")
        assert not await database.fetchval(asked, f"inboxd_{role}", "CREATE")


async def test_all_objects_have_one_owner(database: Database) -> None:
    """A role could replace an object that it owns in the schema, under its callers."""
    owners = await database.fetch(
        "select nspowner as owner from pg_namespace where nspname = 'inboxd'"
        " union select relowner from pg_class where relnamespace = 'inboxd'::regnamespace"
        " union select proowner from pg_proc where pronamespace = 'inboxd'::regnamespace"
    )
    assert len(owners) == 1
    ((owner,),) = await database.fetch("select pg_get_userbyid($1)::text", owners[0]["owner"])
    rows = await database.fetch(_RELATIONS_THERE, [owner])
    assert [row["name"] for row in rows if in_letters(row) != set("SIUD")] == []
    may = await database.fetch(_FUNCTIONS_THERE, [owner])
    assert [row["name"] for row in may if not row["may"]] == []


async def test_security_definer_functions_have_their_own_search_path(
    database: Database,
) -> None:
    """Otherwise the caller decides which operators and functions it runs."""
    rows = await database.fetch(
        "select proname, proconfig from pg_proc"
        " where pronamespace = 'inboxd'::regnamespace and prosecdef"
    )
    assert len(rows) > 50
    for row in rows:
        assert "search_path=pg_catalog, pg_temp" in (row["proconfig"] or ()), row["proname"]


@pytest.mark.parametrize(
    ("made", "kind", "found"),
    [
        ("function inboxd.mine() returns void language sql as ''", "function", {"mine"}),
        (
            "function inboxd.new_uuid(integer) returns void language sql as ''",
            "function",
            {"inboxd.new_uuid()", "inboxd.new_uuid(integer)"},
        ),
        ("table inboxd.mine ()", "table", {"mine"}),
    ],
    ids=["function", "overload", "table"],
)
async def test_new_objects_are_found(
    database: Database, made: str, kind: str, found: set[str]
) -> None:
    """The tests above would fail: they do not just describe the database."""
    await database.execute(f"create {made}")
    asked = _FUNCTIONS_THERE if kind == "function" else _RELATIONS_THERE
    rows = await database.fetch(asked, ["inboxd_worker"])
    known = table(FUNCTIONS if kind == "function" else RELATIONS)
    assert {row["name"] for row in rows} - known.keys() == found
