"""Reading the functions of a plugin: annotations, names, places.

Owns the names of functions and types in messages. Known limit: annotations must name things that
exist at module level when the daemon starts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from inboxd.errors import UsageError


def hints_of(func: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, evaluated. Raises UsageError."""
    try:
        return get_type_hints(func, include_extras=True)
    except Exception as error:
        raise UsageError(
            f"its annotations cannot be read ({type(error).__name__}: {error}): import the names "
            "in them at module level, outside `if TYPE_CHECKING`."
        ) from error


def shown(hint: Any) -> str:
    """The name of a type in messages."""
    return getattr(hint, "__name__", None) or str(hint)


def full_name(hint: Any) -> str:
    """The name of a type with its module, since classes of several libraries share their names."""
    if isinstance(hint, type) and hint.__module__ != "builtins":
        return f"{hint.__module__}.{hint.__qualname__}"
    return shown(hint) if isinstance(hint, type) else str(hint)


def name_of(func: Callable[..., Any]) -> str:
    """Module and name of a function."""
    return f"{func.__module__}.{func.__qualname__}"


def place_of_function(func: Callable[..., Any]) -> str:
    """File and line of a function."""
    return f"{func.__code__.co_filename}:{func.__code__.co_firstlineno}"


def where(func: object) -> str:
    """Name, file and line of a function; of another value, its repr."""
    if not inspect.isfunction(func):
        return repr(func)
    return f"{name_of(func)} ({place_of_function(func)})"
