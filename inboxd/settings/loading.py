"""Loading: the sources become one `Settings`, or one list of problems.

Promises that all problems are reported at once, each with its place, its key and the allowed
values: unreadable sources, invalid values and contradictions; and that no problem is reported that
only follows from another. How: invalid values are removed until the remaining settings validate,
and then count as unknown; a rule that rests on an unknown value is not applied (`Settings.knows`).
Known limit: a contradiction with an invalid value is reported once that value is valid.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from inboxd.errors import SettingsError
from inboxd.settings.contradictions import contradictions
from inboxd.settings.secrets import DOCKER_SECRETS
from inboxd.settings.sections import Key, Settings
from inboxd.settings.sources import NESTED, PREFIX, Sources, Tree, gather
from inboxd.settings.wording import (
    is_unknown,
    key_of,
    may_be_meant,
    one_underscore,
    problem,
    unknown_section,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings without the invalid values, and all problems."""

    settings: Settings
    problems: tuple[str, ...]


def load(
    path: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    docker_secrets: Path = DOCKER_SECRETS,
) -> Settings:
    """Read the settings; path: the TOML file; None: no file.

    Raises `SettingsError` that lists every problem, one a line.
    """
    reading = read(path, environ, docker_secrets=docker_secrets)
    if reading.problems:
        # Never chained: pydantic's error carries the values, and so the secrets.
        raise SettingsError("\n".join(reading.problems)) from None
    return reading.settings


def read(
    path: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    docker_secrets: Path = DOCKER_SECRETS,
) -> Reading:
    """Read the valid settings, for callers that add problems of their own."""
    sources = gather(path, environ, docker_secrets)
    values = sources.merged()
    variables = _unknown_variables(environ)
    for section in variables.values():
        sources.hidden.update(may_be_meant((section,), values))
    settings, wrong = _without_mistakes(values, sources)
    problems = (
        *sources.problems,
        *(problem(detail, sources.layers) for detail in wrong),
        *(unknown_section(name, section) for name, section in variables.items()),
        *one_underscore(environ),
        *contradictions(settings),
    )
    return Reading(settings, problems)


def _unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables whose section does not exist, with the section's name."""
    # Only a name with a section is a setting: INBOXD_CONFIG and the like belong to the command
    # line.
    names = [n for n in environ if n.upper().startswith(PREFIX) and NESTED in n]
    sections = {name: name[len(PREFIX) :].split(NESTED)[0].lower() for name in names}
    return {n: section for n, section in sections.items() if section not in Settings.model_fields}


def _without_mistakes(values: Tree, sources: Sources) -> tuple[Settings, list[ErrorDetails]]:
    """Validate; return the settings without the invalid values, and the errors."""
    left, hidden = values, set(sources.hidden)
    told: list[ErrorDetails] | None = None
    while True:
        try:
            return Settings.merged(left, sources.of(left), hidden), told or []
        except ValidationError as error:
            found = error.errors()
        wrong = {_in_tree(left, key_of(detail)) for detail in found}
        for detail in found:
            if is_unknown(detail):
                hidden |= may_be_meant(key_of(detail), left)
        if told is None:  # errors of later rounds follow from the removals
            told = [each for each in found if not _is_misspelled(each, hidden)]
        hidden |= wrong
        left = _pruned(left, wrong)


def _is_misspelled(detail: ErrorDetails, hidden: Iterable[Key]) -> bool:
    """Whether a setting is only missing because its name is misspelled."""
    return detail["type"] == "missing" and key_of(detail) in hidden


def _in_tree(tree: Tree, key: Key) -> Key:
    """The part of the key that exists in the tree: a key may lead into a list, or be missing."""
    inner: object = tree
    for depth, part in enumerate(key):
        if not isinstance(inner, Mapping) or part not in inner:
            return key[:depth]
        inner = inner[part]
    return key


def _pruned(tree: Tree, wrong: Iterable[Key], above: Key = ()) -> Tree:
    """The tree without these keys."""
    return {
        name: _pruned(inner, wrong, (*above, name)) if isinstance(inner, dict) else inner
        for name, inner in tree.items()
        if (*above, name) not in wrong
    }
