"""Is the inbox whole where it was restored, replicated or published, or where others guard it?

Owns the checks of what a dump, a replica or a tool of the database's leaves out, or adds. Known
limits: what plugins were granted is not known here, nor what their own tables lack.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from inboxd.model.wording import plural
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import listing, row_security
from inboxd.store.row_security import SecuredTable, named, these

_PUT_BACK = "as the schema's owner, run: inboxd migrate --grants"


async def row_secured(look: Look) -> AsyncIterator[Finding]:
    """Whether rows are hidden from this role, or from others that work here."""
    found = await row_security.secured(look.session.connection, look.session.sql)
    for reason, tables in row_security.blinding(found):
        told = f"it hides {reason}: who works with it does nothing"
        yield _secured(Verdict.CRITICAL, told, tables)
    told_of = {each.name for each in found if each.from_me or each.from_owner}
    others = [each for each in found if each.from_roles and each.name not in told_of]
    if others:
        roles = ", ".join(sorted({role for each in others for role in each.from_roles}))
        told = f"it hides rows of {these(others)} from {roles}: who works with these does nothing"
        yield _secured(Verdict.WARNING, told, others)
    if unknown := [each for each in found if each.is_unknown and each.name not in told_of]:
        told = f"it is on for {these(unknown)}; not for this role, so what others see is not known"
        yield _secured(Verdict.NOTICE, told, unknown)


def _secured(verdict: Verdict, found: str, tables: Sequence[SecuredTable]) -> Finding:
    remedy = "run: " + "\n".join(each.remedy for each in tables)
    return Finding("row level security", verdict, found, remedy, len(tables))


async def identities(look: Look) -> AsyncIterator[Finding]:
    """Whether all tables may be published, and those that are may be changed."""
    rows = await look.rows("doctor_identities")
    if not rows:
        yield Finding("publications", Verdict.OK, "every table has a replica identity", figure=0)
    for published, verdict in ((True, Verdict.CRITICAL), (False, Verdict.NOTICE)):
        some = [row for row in rows if row["published"] is published]
        if some:
            names = [row["name"] for row in some]
            found = f"{named(names)} {'is' if len(names) == 1 else 'are'} without replica identity"
            found += (
                " and published: each change of their rows is refused"
                if published
                else ": once somebody publishes them, each change of their rows is refused"
            )
            remedy = "run: " + "\n".join(row["remedy"] for row in some)
            yield Finding("publications", verdict, found, remedy, len(names))


async def sequences(look: Look) -> AsyncIterator[Finding]:
    """Whether sequences give numbers that rows have already: replicas get rows without them."""
    today = datetime.now(UTC)
    since = today - timedelta(days=thresholds.SEQUENCE_DAYS)
    rows = await look.rows("doctor_sequences", since, today + timedelta(days=2))
    wrong = [row for row in rows if row["last"] is None or row["last"] < row["highest"]]
    for row in wrong:
        name = f"{look.schema}.{row['name']}"
        if row["last"] is None:
            remedy = "restore it from a backup; the migrations show how it is made"
            yield Finding("sequences", Verdict.CRITICAL, f"{name} is missing", remedy)
        else:
            yield Finding(
                "sequences",
                Verdict.CRITICAL,
                f"{name} is at {row['last']:,}, and rows have numbers up to {row['highest']:,}: it "
                "gives some of them again",
                f"run: SELECT setval('{name}', {row['highest']});",
                row["highest"] - row["last"],
            )
    if not wrong:
        yield Finding("sequences", Verdict.OK, "all are ahead of the rows", figure=0)


async def owners(look: Look) -> AsyncIterator[Finding]:
    """Whether somebody else owns a part of the schema, and so decides what it does."""
    rows = await look.rows("doctor_owners")
    if rows:
        theirs = ", ".join(sorted({row["name"] for row in rows}))
        things = named([f"{row['kind']} {row['object']}" for row in rows])
        found = f"of another owner than the schema, who decides what it does: {things} ({theirs})"
        remedy = "look at what they do; then run: " + "\n".join(row["remedy"] for row in rows)
        yield Finding("owners", Verdict.CRITICAL, found, remedy, len(rows))


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
