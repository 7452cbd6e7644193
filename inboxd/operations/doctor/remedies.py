"""What makes good that the schema is not as this release's migrations make it.

Owns the words after "run: ", which are statements to be run as they are, by the schema's owner.
Known limits: what went with a table or a column is in backups only; an identity, and grants on a
table that was made again, are not printed.
"""

from collections.abc import Callable

from inboxd.store.catalogue import Difference

# ALTER … SET NOT NULL, or the opposite.
_SET = {True: "SET", False: "DROP"}
# Of a trigger that does not fire: the words of the catalogue's statement.
_OFF = ("(disabled)", "(as replica)")


def remedy(each: Difference, schema: str) -> str:
    """What to do about it; columns and settings are named without their schema."""
    if each.how == "extra" and each.kind != "settings":
        # A table's rows may be somebody's: a day of history that was given another name, say.
        drop = "" if each.kind == "table" else ", or drop it"
        return f"it is none of inboxd's: move it to a schema of your own{drop}"
    if each.how == "left":
        return f"once no worker of that release is left, run: DROP FUNCTION {each.name};"
    return _REMEDIES[each.kind](each, schema)


def is_off(each: Difference) -> bool:
    """Whether it is a trigger of inboxd's that was switched off."""
    return (each.kind, each.how) == ("trigger", "changed") and each.found.endswith(_OFF)


def _table(each: Difference, schema: str) -> str:
    return f"restore it from a backup; the migrations show how {schema}.{each.name} is made"


def _settings(each: Difference, schema: str) -> str:
    wanted, there = (
        dict(pair.split("=") for pair in text.split(", ") if pair)
        for text in (each.expected, each.found)
    )
    steps = [f"SET ({each.expected})"] if wanted else []
    if more := ", ".join(key for key in there if key not in wanted):
        steps.append(f"RESET ({more})")
    table = f"{schema}.{each.name}"
    return f"nothing, if you tuned it; else run: ALTER TABLE {table} {', '.join(steps)};"


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
    """Its type, whether it is never null, its default: of "bigint not null default 0"."""
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
    # ONLY would leave the partitions without it.
    made = each.expected.replace(" ON ONLY ", " ON ")
    return f"run: DROP INDEX {each.name}; {made};" if each.how == "changed" else f"run: {made};"


def _function(each: Difference, _: str) -> str:
    return f"run: {each.statement}" if each.how == "changed" else "run: inboxd migrate"


def _trigger(each: Difference, _: str) -> str:
    table, _, name = each.name.partition(" ")
    if each.found.startswith(f"{each.expected} ("):  # it is as it should be, but for when it fires
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
