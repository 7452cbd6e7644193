"""Schemes of plugins: factories in entry points of the group `inboxd.verifiers`.

Promises: only used schemes are imported; an error names the distribution, and quotes no secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from inboxd.errors import InboxdError, PluginError, SettingsError
from inboxd.model.entry_points import origin, why
from inboxd.signatures.contract import Key, Verifier

GROUP = "inboxd.verifiers"

# Secrets with fewer bytes are not replaced in messages: they could be parts of words.
_SHORTEST_HIDDEN = 4


def installed() -> list[str]:
    return sorted({point.name for point in entry_points(group=GROUP)})


def of_plugin(
    scheme: str, keys: Sequence[Key], tolerance: float, options: Mapping[str, Any]
) -> Verifier | None:
    """The verifier of a plugin's scheme; None if no plugin provides it. Raises PluginError."""
    points = [*entry_points(group=GROUP, name=scheme)]
    if len(points) > 1:
        both = " and ".join(sorted(origin(point) for point in points))
        raise PluginError(f"scheme {scheme!r} is declared by {both}: uninstall one of them.")
    return _made(points[0], keys, tolerance, options) if points else None


def _made(
    point: EntryPoint, keys: Sequence[Key], tolerance: float, options: Mapping[str, Any]
) -> Verifier:
    try:
        factory = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported, without quoting secrets
        told = why(error, point.module)
        raise PluginError(_line(point, f"import failed: {told}", keys)) from None
    if not callable(factory):
        kind = type(factory).__name__
        told = f"it names a {kind}: let it name a function of keys, tolerance and options."
        raise PluginError(_line(point, told, keys))
    try:
        made = factory(keys, tolerance=tolerance, options=options)
    except InboxdError as error:
        raise SettingsError(_line(point, str(error), keys)) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        told = f"it failed: {why(error, point.module)}"
        raise PluginError(_line(point, told, keys)) from None
    _check(point, made)
    return made  # type: ignore[no-any-return] # checked above


def _check(point: EntryPoint, made: Any) -> None:
    wanted = ("verify", "sign", "signed_headers", "secret_headers", "default_dedup_key", "doubts")
    missing = [name for name in wanted if not hasattr(made, name)]
    if missing:
        raise PluginError(
            f"{origin(point)}: it made a {type(made).__name__} without {', '.join(missing)}: let "
            "its class inherit from inboxd.signatures.Verifier."
        )
    if secret := made.signed_headers & {*made.secret_headers, "authorization", "cookie"}:
        raise PluginError(
            f"{origin(point)}: its signed_headers are stored, but have secret headers: "
            f"{', '.join(sorted(secret))}."
        )


def _line(point: EntryPoint, text: str, keys: Sequence[Key]) -> str:
    for key in keys:
        if len(key.secret) >= _SHORTEST_HIDDEN:
            for form in (repr(key.secret)[2:-1], key.secret.decode("utf-8", "replace")):
                text = text.replace(form, "…")
    return f"{origin(point)}: {' '.join(text.split())}"
