"""Remedies for differences between the schema and this release's migrations.

The schema's owner can run the statements after "run: " unchanged. Known limit: identities, and
grants on a table that was made again, are not printed.
"""

from collections.abc import Callable

from inboxd.store.catalogue import Difference

_SET = {True: "SET", False: "DROP"}  # NOT NULL, DEFAULT
# Ends of the catalogue's definition of a trigger that does not fire.
_OFF = ("(disabled)", "(as replica)")


def remedy(each: Difference, schema: str) -> str:
    if each.how == "extra" and each.kind != "settings":
        # A table may have rows of value, such as a renamed day of history.
        drop = "" if each.kind == "table" else ", or drop it"
        return f"it does not belong to inboxd: move it to a schema of your own{drop}"
    if each.how == "left":
        return f"after the last worker of that release has ended, run: DROP FUNCTION {each.name};"
    return _REMEDIES[each.kind](each, schema)


def is_off(each: Difference) -> bool:
    """One of inboxd's triggers was switched off."""
    return (each.kind, each.how) == ("trigger", "changed") and each.found.endswith(_OFF)


def _table(each: Difference, schema: str) -> str:
    return f"restore it from a backup; the migrations have the definition of {schema}.{each.name}"


def _settings(each: Difference, schema: str) -> str:
    wanted, there = (
        dict(pair.split("=") for pair in text.split(", ") if pair)
        for text in (each.expected, each.found)
    )
    steps = [f"SET ({each.expected})"] if wanted else []
    if more := ", ".join(key for key in there if key not in wanted):
        steps.append(f"RESET ({more})")
    table = f"{schema}.{each.name}"
    return f"do nothing if you tuned it; otherwise run: ALTER TABLE {table} {', '.join(steps)};"


def _column(each: Difference, schema: str) -> str:
    table, _, name = each.name.partition(".")
    if each.how == "missing":
        return f"run: ALTER TABLE {schema}.{table} ADD COLUMN {name} {each.expected};"
    (type_, filled, default), (other_type, other_filled, other) = map(
        _parts, (each.expected, each.found)
    )
    steps = []
    if type_ != other_type:
        steps.append(f"TYPE {type_}")
    if filled != other_filled:
        steps.append(f"{_SET[filled]} NOT NULL")
    if default != other:
        steps.append(f"{_SET[bool(default)]} DEFAULT {default}".strip())
    then = f", ALTER COLUMN {name} "
    return f"run: ALTER TABLE {schema}.{table} ALTER COLUMN {name} {then.join(steps)};"


def _parts(column: str) -> tuple[str, bool, str]:
    """Split "bigint not null default 0" into type, whether it is not null, and default."""
    rest, _, default = column.partition(" default ")
    type_ = rest.removesuffix(" not null")
    return type_, rest != type_, default


def _constraint(each: Difference, _: str) -> str:
    table, _, name = each.name.partition(" ")
    made = f"ADD CONSTRAINT {name} {each.expected};"
    if each.how == "changed":
        return f"run: ALTER TABLE {table} DROP CONSTRAINT {name}, {made}"
    return f"run: ALTER TABLE {table} {made}"


def _index(each: Difference, _: str) -> str:
    # ON ONLY would make no indexes on the partitions.
    made = each.expected.replace(" ON ONLY ", " ON ")
    return f"run: DROP INDEX {each.name}; {made};" if each.how == "changed" else f"run: {made};"


def _function(each: Difference, _: str) -> str:
    return f"run: {each.statement}" if each.how == "changed" else "run: inboxd migrate"


def _trigger(each: Difference, _: str) -> str:
    table, _, name = each.name.partition(" ")
    if each.found.startswith(f"{each.expected} ("):  # equal, but switched off
        return f"run: ALTER TABLE {table} ENABLE TRIGGER {name};"
    return f"run: {each.expected.replace('CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER')};"


_REMEDIES: dict[str, Callable[[Difference, str], str]] = {
    "table": _table,
    "settings": _settings,
    "column": _column,
    "constraint": _constraint,
    "index": _index,
    "function": _function,
    "trigger": _trigger,
}
