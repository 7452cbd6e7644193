"""The secret keys of each declared type's payload, from all of its handlers.

Known limit: if workers differ, the worker that joined last counts. *See:* `api/secret_keys.py`,
which finds them.
"""

from inboxd.registry.registry import Registry


def type_secrets(registry: Registry) -> dict[tuple[str, str], list[str]]:
    """The secret keys of all types, by kind and type, sorted."""
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
