"""The endpoints of a worker's settings, with their secrets, as rows for the table.

An error names the file of a secret, never its text. It reads files: call it in a thread.
"""

from collections.abc import Mapping
from typing import Any

from inboxd.errors import SettingsError
from inboxd.model.endpoints import secret_problem
from inboxd.settings.endpoints import Endpoint
from inboxd.settings.secrets import read_secret
from inboxd.settings.values import format_rate


def declared_endpoints(settings: Mapping[str, Endpoint]) -> list[dict[str, Any]]:
    """Parameters of `declare_endpoints.sql`. Raises SettingsError."""
    return [
        {
            "name": name,
            "url": each.url,
            "types": list(each.types),
            "tenant": each.tenant,
            "secrets": _secrets(name, each),
            "ordered": each.ordered,
            "events": each.events,
            "rate": None if each.rate is None else format_rate(each.rate),
            "concurrency": each.concurrency,
            "disable_after": each.disable_after,
        }
        for name, each in settings.items()
    ]


def _secrets(name: str, endpoint: Endpoint) -> list[str]:
    found = []
    for file in (endpoint.secret_file, endpoint.old_secret_file):
        if file is not None:
            found.append(read_secret(file))
            if problem := secret_problem(found[-1]):
                raise SettingsError(f"[endpoints.{name}]: the secret in {file} {problem}")
    return found
