"""Secret keys of a payload, found by the types of its fields: pydantic's SecretStr and the like.

Promises that a field is found at any depth: in models, dataclasses, typed dictionaries and named
tuples, in lists, mappings and unions, and under each of its aliases. A field that holds a secret in
a list or a mapping is secret itself. Known limits: keys are matched by name, so a harmless field of
the same name is secret, too; classes with a parser of their own are not inspected.
*See:* `admin/redaction.py`, which hides the values.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import AliasChoices, AliasPath, BaseModel, RootModel, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

# Stands for the payload itself, which has no name.
WHOLE: Final = ""
_SECRETS: Final = (SecretStr, SecretBytes, Secret)


def secret_keys(payload: Any) -> frozenset[str]:
    """The keys with secret values in the payload of a handler; WHOLE: all of it is secret.

    A type that cannot be inspected, such as a dataclass with an unknown name, counts as secret.
    """
    try:
        return frozenset(_below(payload, (WHOLE,), set()))
    except Exception:  # noqa: BLE001 - a plugin's class may raise anything when inspected
        return frozenset((WHOLE,))


def _below(hint: Any, names: tuple[str, ...], seen: set[object]) -> Iterator[str]:
    """The secret keys of a type that stands under `names`. seen: types inspected, with names."""
    origin = get_origin(hint)
    named = origin if isinstance(origin, type) else hint
    if isinstance(named, type) and issubclass(named, _SECRETS):
        yield from names
        return
    # A type may contain itself; and not every type can be hashed.
    this = (hint if isinstance(hint, type) else repr(hint), names)
    if this in seen:
        return
    seen.add(this)
    if isinstance(named, type) and (fields := list(_fields(hint, named))):
        for own, of in fields:
            yield from _below(of, names if issubclass(named, RootModel) else own, seen)
        return
    # The type that a new name stands for: of `type X = …`, and of NewType.
    for meant in ("__value__", "__supertype__"):
        if not isinstance(hint, type) and hasattr(hint, meant):
            yield from _below(getattr(hint, meant), names, seen)
    for inner in get_args(hint):
        yield from _below(inner, names, seen)


def _fields(hint: Any, named: type) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The fields of a class: all names of each, and its type."""
    known = getattr(named, "__pydantic_fields__", None)
    left = getattr(named, "__parameters__", ())
    chosen = dict(zip(left, get_args(hint), strict=False)) if isinstance(left, tuple) else {}
    if issubclass(named, BaseModel) or known:
        for name, field in (known or {}).items():
            yield _names(name, field), _filled_in(field.annotation, chosen)
    elif dataclasses.is_dataclass(named) or is_typeddict(named) or _is_named_tuple(named):
        for name, of in get_type_hints(named, include_extras=True).items():
            given = [*get_args(of), getattr(named, name, None)]
            told = [_names(name, each) for each in given if isinstance(each, FieldInfo)]
            yield (name, *(one for names in told for one in names)), _filled_in(of, chosen)


def _is_named_tuple(named: type) -> bool:
    return issubclass(named, tuple) and hasattr(named, "_fields")


def _filled_in(of: Any, chosen: Mapping[Any, Any]) -> Any:
    """A field's type, with the type parameters of a generic class filled in."""
    if isinstance(of, TypeVar):
        return chosen.get(of, Any)
    if not isinstance(of, type) and (left := getattr(of, "__parameters__", ())):
        return of[tuple(chosen.get(each, Any) for each in left)]
    return of


def _names(name: str, field: FieldInfo) -> tuple[str, ...]:
    """A field's name and aliases; of a path, its last key."""
    found = [name, *([field.alias] if field.alias else [])]
    given = field.validation_alias
    for each in given.choices if isinstance(given, AliasChoices) else [given]:
        if isinstance(each, AliasPath):
            found += [step for step in each.path if isinstance(step, str)][-1:]
        elif each is not None:
            found.append(each)
    return tuple(dict.fromkeys(found))
