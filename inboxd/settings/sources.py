"""Sources of settings: the environment, secret files, the TOML file.

Owns how each is read, and their order: the first that has a value wins. Promises that an unreadable
source is reported, and that all other sources are read. Known limit: an unreadable TOML file could
hold any setting, so all settings count as unknown.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource
from pydantic_settings import SettingsError as MalformedVariable

from inboxd.errors import SettingsError
from inboxd.settings.secrets import (
    find_broker_password,
    find_secrets,
    find_webhook_secret,
    read_secret,
)
from inboxd.settings.sections import NOTHING_KNOWN, Key, Settings

PREFIX = "INBOXD_"
NESTED = "__"

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one source; `name` is its name in messages."""

    name: str
    values: Tree


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources, strongest first, the problems of reading them, and the settings these hide."""

    layers: list[Layer] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    hidden: set[Key] = field(default_factory=set)

    def merged(self) -> Tree:
        """The values that win."""
        merged: Tree = {}
        for layer in reversed(self.layers):
            merged = _overlay(merged, layer.values)
        return merged

    def of(self, values: Tree) -> dict[str, str]:
        """Which source gave each of these values, by dotted key."""
        left = set(_leaves(values))
        return {
            ".".join(key): layer.name
            for layer in reversed(self.layers)
            for key in _leaves(layer.values)
            if key in left
        }


def gather(path: Path | None, environ: Mapping[str, str], docker: Path) -> Sources:
    """Read all sources; path: the TOML file; None: no file."""
    found = Sources()
    base = [_environment(environ, found), *([_toml(path, found)] if path else [])]
    found.layers.extend((base[0], *_secret_layers(base, environ, docker, found), *base[1:]))
    found.layers[:0] = _webhook_secrets(found, environ, docker)
    found.layers[:0] = _target_secrets(found)
    found.layers[:0] = _broker_passwords(found, environ, docker)
    return found


def at(tree: Any, keys: Iterable[str]) -> Any:
    """The value at these keys, or None."""
    for key in keys:
        if not isinstance(tree, Mapping) or key not in tree:
            return None
        tree = tree[key]
    return tree


class _Environment(EnvSettingsSource):
    """An environment source that parses JSON below a table of names.

    Old versions of pydantic-settings (2.7 to 2.10, at least) look for the name among the settings,
    find nothing, and do not parse the JSON below it, as in the keys of a webhook source.
    """

    def next_field(
        self,
        field: FieldInfo | Any | None,
        key: str,
        case_sensitive: bool | None = None,  # noqa: FBT001 - as in the base class
    ) -> FieldInfo | None:
        """The field that `key` names in the value of `field`."""
        annotation = field.annotation if isinstance(field, FieldInfo) else field
        if get_origin(annotation) is dict:
            return FieldInfo.from_annotation(get_args(annotation)[-1])
        return super().next_field(field, key, case_sensitive)


def _environment(environ: Mapping[str, str], found: Sources) -> Layer:
    source = _Environment(Settings)
    given = {n.lower(): value for n, value in environ.items() if n.upper().startswith(PREFIX)}
    for name, value in [*given.items()]:
        source.env_vars = {name: value}
        try:
            source()
        except MalformedVariable:
            found.problems.append(
                f"environment: {name.upper()} is not valid JSON; a table is given as JSON, "
                """such as INBOXD_TYPES='{"user.created": {"timeout": "30s"}}'"""
            )
            found.hidden.add(tuple(name[len(PREFIX) :].split(NESTED)))
            del given[name]
    source.env_vars = given
    return Layer("environment", source())


def _toml(path: Path, found: Sources) -> Layer:
    try:
        return Layer(str(path), tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        why = f"cannot read the settings ({error.strerror}); check the path given with -c"
    except UnicodeDecodeError:
        why = "not UTF-8 text; save the file as UTF-8"
    except tomllib.TOMLDecodeError as error:
        why = f"not valid TOML: {error}"
    found.problems.append(f"{path}: {why}")
    found.hidden.add(NOTHING_KNOWN)
    return Layer(str(path), {})


def _secret_layers(
    base: Iterable[Layer], environ: Mapping[str, str], docker: Path, found: Sources
) -> Iterator[Layer]:
    for layer in base:
        # The strongest source that names a password file decides.
        if (file := at(layer.values, ("database", "password_file"))) is not None:
            yield from _secret("password", Path(str(file)), found)
            break
    for setting, path in find_secrets(environ, docker):
        yield from _secret(setting, path, found)


def _secret(setting: str, path: Path, found: Sources) -> Iterator[Layer]:
    """The secret in a file; for a password also its path, to read it again (`Database`)."""
    file = {"password_file": str(path)} if setting == "password" else {}
    try:
        yield Layer(str(path), {"database": {setting: read_secret(path), **file}})
    except SettingsError as error:
        found.problems.append(str(error))
        found.hidden.add(("database", setting))


def _webhook_secrets(found: Sources, environ: Mapping[str, str], docker: Path) -> list[Layer]:
    """The keys of webhook sources, completed from their secret files.

    A list comes from one source alone, so its keys are completed there.
    """
    layers = []
    for name, source in _tables(at(found.merged(), ("inbound", "webhooks"))):
        where = ("inbound", "webhooks", name, "keys")
        keys = source.get("keys")
        files: list[Path] = []
        if not isinstance(keys, list | tuple):
            continue
        try:
            filled = [_with_secret(name, key, files, environ, docker) for key in keys]
        except SettingsError as error:
            found.problems.append(str(error))
            found.hidden.add(where)
            continue
        if files:
            origin = next(each.name for each in found.layers if at(each.values, where) is not None)
            place = ", ".join([origin, *map(str, files)])
            layers.append(Layer(place, {"inbound": {"webhooks": {name: {"keys": filled}}}}))
    return layers


def _target_secrets(found: Sources) -> list[Layer]:
    """The contents of the secret files of targets: authorization and keys."""
    layers = []
    for name, target in _tables(at(found.merged(), ("targets",))):
        files: list[Path] = []
        filled: Tree = {}
        try:
            if (file := target.get("authorization_file")) is not None:
                filled["authorization"] = _authorization(name, target, Path(str(file)), files)
            if isinstance(keys := target.get("keys"), list | tuple):
                filled["keys"] = [_of_file(f"targets.{name}", key, files) for key in keys]
        except SettingsError as error:
            found.problems.append(str(error))
            found.hidden.add(("targets", name))
            continue
        if files:
            where = ("targets", name)
            origin = next(each.name for each in found.layers if at(each.values, where) is not None)
            place = ", ".join([origin, *map(str, files)])
            layers.append(Layer(place, {"targets": {name: filled}}))
    return layers


def _authorization(name: str, target: Mapping[str, Any], file: Path, files: list[Path]) -> str:
    if target.get("authorization") is not None:
        raise SettingsError(
            f"[targets.{name}]: authorization and authorization_file are both set; leave one out"
        )
    files.append(file)
    return read_secret(file)


def _broker_passwords(found: Sources, environ: Mapping[str, str], docker: Path) -> list[Layer]:
    """The secret files of brokers that name none; each is read when its broker is connected to."""
    layers = []
    for name, broker in _tables(at(found.merged(), ("brokers",))):
        named = broker.keys() & {"password", "password_file"}
        path = None if named else find_broker_password(name, environ, docker)
        if path is not None:
            layers.append(Layer(str(path), {"brokers": {name: {"password_file": str(path)}}}))
    return layers


def _of_file(table: str, key: Any, files: list[Path]) -> Any:
    """Complete a key from the secret file that it names, which is added to `files`."""
    if not isinstance(key, Mapping) or key.get("secret_file") is None:
        return key
    if key.get("secret") is not None:
        name = key.get("id", "1")
        raise SettingsError(f"[{table}]: key {name!r} has secret and secret_file; leave one out")
    files.append(Path(str(key["secret_file"])))
    return {**key, "secret": read_secret(files[-1])}


def _tables(tree: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(tree, Mapping):
        yield from ((name, one) for name, one in tree.items() if isinstance(one, Mapping))


def _with_secret(
    source: str, key: Any, files: list[Path], environ: Mapping[str, str], docker: Path
) -> Any:
    """Complete a key from its secret file, if there is one, which is added to `files`."""
    if not isinstance(key, Mapping) or key.get("public_key") is not None:
        return key
    name, given = str(key.get("id", "1")), key.get("secret_file")
    if given is not None and key.get("secret") is not None:
        raise SettingsError(
            f"[inbound.webhooks.{source}]: key {name!r} has secret and secret_file; leave one out"
        )
    if key.get("secret") is not None:
        return key
    path = Path(str(given)) if given else find_webhook_secret(source, name, environ, docker)
    if path is None:
        return key
    files.append(path)
    return {**key, "secret": read_secret(path)}


def _overlay(below: Tree, above: Mapping[str, Any]) -> Tree:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = _overlay(dict(old), value) if both and old else value
    return merged


def _leaves(tree: Mapping[str, Any], above: Key = ()) -> Iterator[Key]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key)
