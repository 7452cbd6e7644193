"""Checks rights, sequences and owners, except of plugins: a restore or a tool may change them."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from inboxd.model.wording import plural
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import listing, row_security
from inboxd.store.row_security import SecuredTable, named, these

_RESTORE_RIGHTS = "as the schema's owner, run: inboxd migrate --grants"


async def row_secured(look: Look) -> AsyncIterator[Finding]:
    """Check whether row level security hides rows from this role, or from inboxd's roles."""
    found = await row_security.secured(look.session)
    for reason, tables in row_security.blinding(found):
        hidden = f"it hides {reason}: processes with that role find no work"
        yield _secured(Verdict.CRITICAL, hidden, tables)
    reported = {each.name for each in found if each.from_me or each.from_owner}
    others = [each for each in found if each.from_roles and each.name not in reported]
    if others:
        roles = ", ".join(sorted({role for each in others for role in each.from_roles}))
        hidden = (
            f"it hides rows of {these(others)} from {roles}: processes with these roles find no "
            "work"
        )
        yield _secured(Verdict.WARNING, hidden, others)
    if unknown := [each for each in found if each.is_unknown and each.name not in reported]:
        hidden = (
            f"it is on for {these(unknown)}; this role is exempt, so whether it hides rows from "
            "other roles is unknown"
        )
        yield _secured(Verdict.NOTICE, hidden, unknown)


def _secured(verdict: Verdict, found: str, tables: Sequence[SecuredTable]) -> Finding:
    remedy = "run: " + "\n".join(each.remedy for each in tables)
    return Finding("row level security", verdict, found, remedy, len(tables))


async def identities(look: Look) -> AsyncIterator[Finding]:
    """Publications need a replica identity of each table."""
    rows = await look.rows("doctor_identities")
    if not rows:
        yield Finding("publications", Verdict.OK, "every table has a replica identity", figure=0)
    for published, verdict in ((True, Verdict.CRITICAL), (False, Verdict.NOTICE)):
        some = [row for row in rows if row["published"] is published]
        if some:
            names = [row["name"] for row in some]
            found = f"without replica identity: {named(names)}"
            found += (
                "; published, so the server refuses each change of their rows"
                if published
                else "; once they are published, the server refuses each change of their rows"
            )
            remedy = "run: " + "\n".join(row["remedy"] for row in some)
            yield Finding("publications", verdict, found, remedy, len(names))


async def sequences(look: Look) -> AsyncIterator[Finding]:
    """Replicas copy rows, but not sequences."""
    today = await look.now()
    since = today - timedelta(days=thresholds.SEQUENCE_DAYS)
    rows = await look.rows("doctor_sequences", since, today + timedelta(days=2))
    wrong = [row for row in rows if row["last"] is None or row["last"] < row["highest"]]
    for row in wrong:
        name = f"{look.schema}.{row['name']}"
        if row["last"] is None:
            remedy = "restore it from a backup; the migrations have its definition"
            yield Finding("sequences", Verdict.CRITICAL, f"{name} is missing", remedy)
        else:
            yield Finding(
                "sequences",
                Verdict.CRITICAL,
                f"{name} is at {row['last']:,}, but rows have numbers up to {row['highest']:,}: it "
                "will give some numbers twice",
                f"run: SELECT setval('{name}', {row['highest']});",
                row["highest"] - row["last"],
            )
    if not wrong:
        yield Finding("sequences", Verdict.OK, "all are ahead of the rows", figure=0)


async def owners(look: Look) -> AsyncIterator[Finding]:
    """An owner other than the schema's can redefine a part of it."""
    rows = await look.rows("doctor_owners")
    if rows:
        theirs = ", ".join(sorted({row["name"] for row in rows}))
        things = named([f"{row['kind']} {row['object']}" for row in rows])
        found = f"not owned by the schema's owner: {things} ({theirs}), who can redefine them"
        remedy = "inspect their definitions; then run: " + "\n".join(row["remedy"] for row in rows)
        yield Finding("owners", Verdict.CRITICAL, found, remedy, len(rows))


async def search_path(look: Look) -> AsyncIterator[Finding]:
    """Check whether other roles may create functions in the search path of this login."""
    rows = await look.rows("doctor_path")
    for is_public, verdict in ((True, Verdict.WARNING), (False, Verdict.NOTICE)):
        if some := [row for row in rows if (row["role"] is None) is is_public]:
            who = "every role" if is_public else named(sorted({row["role"] for row in some}))
            schemas = named(sorted({row["schema"] for row in some}))
            yield Finding(
                "search path",
                verdict,
                f"{who} may create functions in {schemas}, which is in the search path of this "
                "login: a function that matches a call better than PostgreSQL's own is called "
                "instead, with the rights of this login",
                "run: " + "\n".join(row["remedy"] for row in some),
                len(some),
            )


async def rights(look: Look) -> AsyncIterator[Finding]:
    open_to_all = [row["name"] for row in await look.rows("open_functions")]
    if open_to_all:
        yield Finding(
            "rights",
            Verdict.CRITICAL,
            f"every role may call {plural(len(open_to_all), 'function')} with the owner's rights: "
            f"{named(open_to_all)}",
            _RESTORE_RIGHTS,
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
            yield Finding("rights", Verdict.WARNING, found, _RESTORE_RIGHTS, len(missing))
    if absent and (open_to_all or len(absent) < len(listing.WHOSE)):
        found = f"missing roles: {', '.join(absent)}"
        remedy = f"{_RESTORE_RIGHTS}; do nothing if roles of your own have these rights"
        yield Finding("rights", Verdict.NOTICE, found, remedy, len(absent))
    elif not (open_to_all or short):
        yield Finding("rights", Verdict.OK, _all_right(absent), figure=0)


def _all_right(absent: Sequence[str]) -> str:
    if absent:
        return "only the owner and roles of your own have rights"
    return "only the owner and inboxd's roles have rights, as the migrations grant them"
