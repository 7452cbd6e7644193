"""Messages about invalid values: the place, the key, the allowed values.

Promises that no message holds a secret. Known limit: the setting that was meant is guessed by its
spelling alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, SecretStr
from pydantic_core import ErrorDetails

from inboxd.model.masking import redact
from inboxd.model.misfit import in_other_words, misfit
from inboxd.model.spelling import did_you_mean, meant
from inboxd.settings.sections import Key, Settings
from inboxd.settings.sources import Layer, at

_SHOWN = 80  # characters of a wrong value that a message repeats


def problem(detail: ErrorDetails, layers: Iterable[Layer]) -> str:
    """The message about an error of pydantic."""
    keys = key_of(detail)
    if keys[-1:] == ("[key]",):  # the name of a table is invalid
        keys = keys[:-1]
    source = next((layer.name for layer in layers if _gives(layer, keys)), "")
    place = f"{source}: " if source else ""
    *section, key = keys or ("",)
    table = f"[{'.'.join(section)}]"
    if is_unknown(detail):
        what = f"{table}: unknown setting {key!r}" if section else f"unknown section [{key}]"
        return f"{place}{what}{_hint(key, _known(section))}"
    ours = misfit(detail["type"], detail.get("ctx")) or in_other_words(detail["msg"])
    message = ours.replace("an object", "a table")  # TOML's name for it
    if not section:
        return f"{place}{f'[{key}]: ' if key else ''}{message}"
    return f"{place}{table} {key}: {message}{_given(keys, detail['input'])}"


def unknown_section(variable: str, section: str) -> str:
    """The message about a variable of the environment whose section does not exist."""
    return f"environment: {variable}: unknown section [{section}]{_hint(section, _known(()))}"


def one_underscore(variables: Iterable[str]) -> Iterator[str]:
    """Messages about variables with one underscore after the section instead of two."""
    right = {
        f"INBOXD_{'_'.join(each)}".upper(): f"INBOXD_{'__'.join(each)}".upper()
        for each in _paths(())
    }
    for each in variables:
        if meant_ := right.get(each.upper()):
            yield f"environment: {each}: a section is followed by two underscores; write {meant_}"


def key_of(detail: ErrorDetails) -> Key:
    """The key that the error is about."""
    return tuple(str(part) for part in detail["loc"])


def is_unknown(detail: ErrorDetails) -> bool:
    """Whether the error is about a setting or section that does not exist."""
    return detail["type"] == "extra_forbidden"


def may_be_meant(unknown: Key, given: Mapping[str, Any]) -> set[Key]:
    """The settings that an unknown name might be a misspelling of.

    Returns the setting with a similar name, or else every unset setting of its section.
    """
    *section, key = unknown
    known = _known(section)
    near = meant(key.lower(), known)
    table = at(given, section) or {}
    names = [name for name in known if name not in table] if near is None else [near]
    return {(*section, name) for name in names}


def _given(keys: Iterable[str], value: object) -> str:
    if isinstance(value, Mapping | BaseModel) or _is_secret(keys):
        return ""
    return f" (given: {redact(repr(value), _SHOWN)})"


def _paths(section: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The sections and settings below a section, except in sections whose names people choose."""
    for name in _known(section):
        path = (*section, name)
        if section:
            yield path
        yield from _paths(path)


def _known(section: Iterable[str]) -> list[str]:
    model = _model(section)
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _is_secret(keys: Iterable[str]) -> bool:
    """Whether the value is a secret, or contains one."""
    annotation = _annotation(keys)
    model = _own(_inner(annotation) or annotation)
    within = [field.annotation for field in model.model_fields.values()] if model else []
    return any(SecretStr in (each, *get_args(each)) for each in (annotation, *within))


def _model(section: Iterable[str]) -> type[BaseModel] | None:
    return _own(_annotation(section))


def _annotation(keys: Iterable[str]) -> Any:
    # [queues.email] -> Settings -> dict[str, Queue] -> Queue; a list's number leads to its members
    found: Any = Settings
    for key in keys:
        fields = getattr(_own(found), "model_fields", {})
        found = fields[key].annotation if key in fields else _inner(found)
    return found


def _inner(annotation: Any) -> Any:
    """The type of the members of a table or list."""
    members = [each for each in get_args(annotation) if each not in (Ellipsis, NoneType)]
    return members[-1] if members else None


def _own(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation `Model` or `Model | None`."""
    each = next((one for one in get_args(annotation) if one is not NoneType), annotation)
    return each if isinstance(each, type) and issubclass(each, BaseModel) else None


def _gives(layer: Layer, keys: Sequence[str]) -> bool:
    """Whether the layer has the value; a layer has a list as a whole or not at all."""
    number = next((depth for depth, key in enumerate(keys) if key.isdecimal()), None)
    whole = at(layer.values, keys[:number])
    return at(layer.values, keys) is not None or (number is not None and isinstance(whole, list))


def _hint(word: str, known: Iterable[str]) -> str:
    known = list(known)
    if near := did_you_mean(word.lower(), known):
        return near
    return f"; known are {', '.join(sorted(known))}" if known else ""
