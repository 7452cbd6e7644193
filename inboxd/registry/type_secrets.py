"""Which keys of each declared type's payload are secrets, as any of its handlers declares them.

Known limit: of workers that differ, the one that joined last counts.
*See:* `api/secret_keys.py`, which finds them.
"""

from inboxd.registry.registry import Registry


def type_secrets(registry: Registry) -> dict[tuple[str, str], list[str]]:
    """The keys of all types, by kind and type, sorted."""
    return {
        **{
            ("event", type_): sorted({key for each in found for key in each.secret_keys})
            for type_, found in registry.events.items()
        },
        **{
            ("command", type_): sorted(found.secret_keys)
            for type_, found in registry.commands.items()
        },
    }
