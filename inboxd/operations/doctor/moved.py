"""Is the inbox whole where it was restored, replicated or published, or where others guard it?

Owns the checks of what a dump, a replica or a tool of the database's leaves out, or adds. Known
limits: what plugins were granted is not known here, and a sequence that was set by hand, and gave
nothing since, counts as one that never gave anything.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from inboxd.model.wording import plural
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import listing, row_security
from inboxd.store.row_security import named

_PUT_BACK = "as the schema's owner, run: inboxd migrate --grants"


async def row_secured(look: Look) -> AsyncIterator[Finding]:
    """Whether rows are hidden from this role, or may be from another."""
    found = await row_security.secured(look.session.connection, look.session.sql)
    hidden = [each.name for each in found if each.hides]
    unknown = [each.name for each in found if each.exempt]
    if hidden:
        yield Finding(
            "row level security",
            Verdict.CRITICAL,
            f"it hides rows of {named(hidden)} from this role: who works with it does nothing",
            f"run: {row_security.ending(hidden, look.schema)}",
            len(hidden),
        )
    if unknown:
        yield Finding(
            "row level security",
            Verdict.WARNING,
            f"it is on for {named(unknown)}; not for this role, so what others see is not known",
            f"run: {row_security.ending(unknown, look.schema)}",
            len(unknown),
        )


async def identities(look: Look) -> AsyncIterator[Finding]:
    """Whether all tables may be published, and those that are may be changed."""
    rows = await look.rows("doctor_identities")
    if not rows:
        yield Finding("publications", Verdict.OK, "every table has a replica identity", figure=0)
    for published, verdict in ((True, Verdict.CRITICAL), (False, Verdict.NOTICE)):
        names = [row["name"] for row in rows if row["published"] is published]
        if names:
            found = f"{named(names)} {'is' if len(names) == 1 else 'are'} without replica identity"
            found += (
                " and published: each change of their rows is refused"
                if published
                else ": once somebody publishes them, each change of their rows is refused"
            )
            remedy = "\n".join(
                f"ALTER TABLE {look.schema}.{name} REPLICA IDENTITY FULL;" for name in names
            )
            yield Finding("publications", verdict, found, f"run: {remedy}", len(names))


async def sequences(look: Look) -> AsyncIterator[Finding]:
    """Whether sequences give numbers that rows have already: replicas get rows without them."""
    today = datetime.now(UTC)
    since = today - timedelta(days=thresholds.SEQUENCE_DAYS)
    rows = await look.rows("doctor_sequences", since, today + timedelta(days=2))
    told = False
    for row in rows:
        name = f"{look.schema}.{row['name']}"
        if not row["is_there"]:
            told, remedy = True, "restore it from a backup; the migrations show how it is made"
            yield Finding("sequences", Verdict.CRITICAL, f"{name} is missing", remedy)
        elif row["last"] is not None and row["last"] < row["highest"]:
            told = True
            yield Finding(
                "sequences",
                Verdict.CRITICAL,
                f"{name} is at {row['last']:,}, and rows have numbers up to {row['highest']:,}: it "
                "gives some of them again",
                f"run: SELECT setval('{name}', {row['highest']});",
                row["highest"] - row["last"],
            )
    unseen = [row["name"] for row in rows if row["is_there"] and row["last"] is None]
    if unseen:
        found = f"not seen: {named(unseen)}"
        remedy = f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA {look.schema} TO this role"
        yield Finding("sequences", Verdict.NOTICE, found, remedy, len(unseen))
    elif not told:
        yield Finding("sequences", Verdict.OK, "all are ahead of the rows", figure=0)


async def rights(look: Look) -> AsyncIterator[Finding]:
    """Whether roles have what the migrations granted, and everybody else has nothing."""
    open_to_all = [row["name"] for row in await look.rows("open_functions")]
    if open_to_all:
        yield Finding(
            "rights",
            Verdict.CRITICAL,
            f"everybody may call {plural(len(open_to_all), 'function')} as the schema's owner: "
            f"{named(open_to_all)}",
            _PUT_BACK,
            len(open_to_all),
        )
    absent = await listing.missing_roles(look.session)
    short = False
    for whose in listing.WHOSE:
        role = f"{look.schema}_{whose}"
        if role in absent:
            continue
        if missing := await listing.missing_privileges(look.session, role, whose):
            short = True
            first = f"{missing[0]['privilege']} on {missing[0]['object']}"
            found = f"role {role!r} lacks {plural(len(missing), 'privilege')}, such as {first}"
            yield Finding("rights", Verdict.WARNING, found, _PUT_BACK, len(missing))
    if absent and (open_to_all or len(absent) < len(listing.WHOSE)):
        found = f"roles that are not there: {', '.join(absent)}"
        remedy = f"{_PUT_BACK}; or nothing, if roles of your own have what they would"
        yield Finding("rights", Verdict.NOTICE, found, remedy, len(absent))
    elif not (open_to_all or short):
        yield Finding("rights", Verdict.OK, _well(absent), figure=0)


def _well(absent: Sequence[str]) -> str:
    """What is said where nothing lacks."""
    if absent:
        return "nobody but the owner and who was granted it may do anything"
    return "roles have what the migrations grant, and nobody else has"
