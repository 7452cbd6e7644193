"""Loading: TOML, secret files and environment become one `Settings`, or one list of problems.

Owns the order of the sources (environment, secret files, TOML, defaults; the first wins) and the
wording of problems. Promises that all problems are reported at once, each naming the place, the
key and what is allowed, and that no secret is ever part of one.
Known limit: rules between two settings are checked once each setting is right by itself.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource
from pydantic_settings import SettingsError as MalformedVariable

from inboxd.errors import SettingsError
from inboxd.settings.secrets import DOCKER_SECRETS, find_secrets, read_secret
from inboxd.settings.sections import Settings

PREFIX = "INBOXD_"
_NESTED = "__"
_SHOWN = 80  # characters of a wrong value that a message repeats

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one source; `name` is how a message calls it."""

    name: str
    values: Tree


def load(
    path: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    docker_secrets: Path = DOCKER_SECRETS,
) -> Settings:
    """Read the settings; `path` is the TOML file, None for none.

    Raises `SettingsError` that lists every problem, one a line.
    """
    base = [_environment(environ), *([_toml(path)] if path else [])]
    layers = [base[0], *_secret_layers(base, environ, docker_secrets), *base[1:]]
    merged: Tree = {}
    for layer in reversed(layers):
        merged = _overlay(merged, layer.values)
    sources = {
        ".".join(key): layer.name for layer in reversed(layers) for key in _leaves(layer.values)
    }
    problems = _unknown_variables(environ)
    try:
        settings = Settings.merged(merged, sources)
    except ValidationError as error:
        problems = [*(_problem(detail, layers) for detail in error.errors()), *problems]
    else:
        if not problems:
            return settings
    # Not chained: pydantic's error carries the values, and so the secrets.
    raise SettingsError("\n".join(problems)) from None


def _environment(environ: Mapping[str, str]) -> Layer:
    source = EnvSettingsSource(Settings)
    source.env_vars = {
        name.lower(): value for name, value in environ.items() if name.upper().startswith(PREFIX)
    }
    try:
        return Layer("environment", source())
    except MalformedVariable as error:
        raise SettingsError(
            f"environment: {error}; a table is given as JSON, "
            """such as INBOXD_TYPES='{"user.created": {"timeout": "30s"}}'"""
        ) from None


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    # Only names with a section are settings: INBOXD_CONFIG and the like are the command line's.
    sections = list(Settings.model_fields)
    names = [n for n in environ if n.upper().startswith(PREFIX) and _NESTED in n]
    wrong = ((n, n[len(PREFIX) :].split(_NESTED)[0].lower()) for n in names)
    return [
        f"environment: {name}: unknown section [{section}]{_hint(section, sections)}"
        for name, section in wrong
        if section not in sections
    ]


def _toml(path: Path) -> Layer:
    try:
        return Layer(str(path), tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot read the settings ({error.strerror}); check the path given with -c"
        ) from error
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from None


def _secret_layers(
    base: Iterable[Layer], environ: Mapping[str, str], docker: Path
) -> Iterator[Layer]:
    for layer in base:
        # The place that names a password file, and no weaker one, decides.
        if (file := _at(layer.values, ("database", "password_file"))) is not None:
            path = Path(str(file))
            yield Layer(str(path), {"database": {"password": read_secret(path)}})
            break
    for setting, path in find_secrets(environ, docker):
        yield Layer(str(path), {"database": {setting: read_secret(path)}})


def _overlay(below: Tree, above: Mapping[str, Any]) -> Tree:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = _overlay(dict(old), value) if both and old else value
    return merged


def _leaves(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key)


def _at(tree: Any, keys: Iterable[str | int]) -> Any:
    for key in keys:
        if not isinstance(tree, Mapping) or key not in tree:
            return None
        tree = tree[key]
    return tree


def _problem(detail: ErrorDetails, layers: Iterable[Layer]) -> str:
    keys = tuple(str(part) for part in detail["loc"])
    source = next((layer.name for layer in layers if _at(layer.values, keys) is not None), "")
    place = f"{source}: " if source else ""
    *section, key = keys or ("",)
    table = f"[{'.'.join(section)}]"
    if detail["type"] == "extra_forbidden":
        known = _known(section)
        what = f"{table}: unknown setting {key!r}" if section else f"unknown section [{key}]"
        return f"{place}{what}{_hint(key, known)}"
    message = detail["msg"].removeprefix("Value error, ")
    if not section:
        return f"{place}{f'[{key}]: ' if key else ''}{message}"
    return f"{place}{table} {key}: {message}{_given(keys, detail['input'])}"


def _given(keys: Iterable[str], value: object) -> str:
    if isinstance(value, Mapping | BaseModel) or _is_secret(keys):
        return ""
    return f" (given: {repr(value)[:_SHOWN]})"


def _known(section: Iterable[str]) -> list[str]:
    model = _model(section)
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _is_secret(keys: Iterable[str]) -> bool:
    *section, key = keys
    model = _model(section)
    field = model.model_fields.get(key) if model else None
    return field is not None and SecretStr in (field.annotation, *get_args(field.annotation))


def _model(section: Iterable[str]) -> type[BaseModel] | None:
    # [queues.email] -> Settings -> dict[str, Queue] -> Queue
    found: Any = Settings
    for key in section:
        fields = getattr(found, "model_fields", None)
        found = fields[key].annotation if fields and key in fields else get_args(found)[-1:]
        found = found[0] if isinstance(found, tuple) and found else found
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _hint(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word.lower(), known := list(known), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(sorted(known))}" if known else ""
