"""Secret files that other accounts may read.

Promises that a file is reported only if another account of this machine can in fact read it, by its
mode and the modes of the folders above. Known limit: access control lists are ignored.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from inboxd.settings.secrets import DOCKER_SECRETS
from inboxd.settings.sections import Settings

# Endings of the settings that name a secret file.
_NAMES = ("password_file", "secret_file", "token_file", "authorization_file")
_KEYS = ("private_key", "tls_key")


def open_to_others(settings: Settings, platform: Path = DOCKER_SECRETS) -> list[Path]:
    """The secret files that every account may read.

    platform: the folder of a container's secrets, where there are no other accounts.
    """
    found = dict.fromkeys(_files(settings))
    return [each for each in found if platform not in each.parents and _is_open(each)]


def _files(settings: Settings) -> Iterator[Path]:
    for key, value in _leaves(settings.model_dump(by_alias=True)):
        if isinstance(value, Path) and key.endswith((*_NAMES, *_KEYS)):
            yield value
        elif _is_secret(value):
            # The source is the environment, or file names separated by commas.
            place = settings.source_of(key.partition("[")[0])
            yield from (Path(each) for each in place.split(", ") if os.sep in each)


def _leaves(tree: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its dotted key; list items have [] after the list's key."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, f"{above}.{key}" if above else str(key))
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _leaves(value, f"{above}[]")
    else:
        yield above, tree


def _is_secret(value: object) -> bool:
    """Whether the value is a secret; a database URL is one if it has a password."""
    if not isinstance(value, SecretStr):
        return False
    text = value.get_secret_value()
    try:
        parts = urlsplit(text) if text.startswith(("postgres://", "postgresql://")) else None
    except ValueError:
        return True
    return parts is None or bool(parts.password) or "password=" in parts.query


def _is_open(path: Path) -> bool:
    try:
        file = path.resolve(strict=True)
        ways = [each.stat().st_mode & stat.S_IXOTH for each in file.parents]
        return bool(file.stat().st_mode & stat.S_IROTH) and all(ways)
    except OSError:  # the file does not exist, or this account cannot see it
        return False
