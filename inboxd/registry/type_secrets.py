"""The secret keys of each declared type's payload, from all of its handlers."""

from inboxd.registry.registry import Registry


def type_secrets(registry: Registry) -> dict[tuple[str, str], list[str]]:
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
