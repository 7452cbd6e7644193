"""From a page to HTML: templates, the texts of a language, and how values look.

Owns the environment of the templates. Promises that every value is escaped, that a template which
misses one fails, and that every address begins with the prefix that the screens are under.
Known limit: texts are the English ones, and translated where a catalogue (`texts/LANGUAGE.toml`)
has them.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from inboxd.admin.answers import json_of
from inboxd.admin.screens import bars, charts, graphs
from inboxd.admin.screens.formatting import FILTERS
from inboxd.model.wording import STATUS_WORDS

LANGUAGES = ("en", "pt-BR")


class Renderer:
    """The templates."""

    def __init__(self) -> None:
        """Read none yet: each is read when it is first needed."""
        self._templates = Environment(
            loader=PackageLoader("inboxd.admin.screens"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(FILTERS)
        self._templates.globals |= {"status_words": STATUS_WORDS}
        self._templates.globals |= {"charts": charts, "bars": bars, "graphs": graphs}

    def html(self, template: str, language: str, prefix: str, values: Mapping[str, Any]) -> str:
        """A page. prefix: of every path, without its slash at the end."""
        texts = _texts(language)

        def url(path: str) -> str:
            return f"{prefix}{path}"

        def say(text: str, **words: object) -> str:
            told = texts.get(text, text)
            return told.format(**words) if words else told

        return self._templates.get_template(template).render(
            values, url=url, say=say, language=language
        )


@cache
def _texts(language: str) -> Mapping[str, str]:
    if language == "en":
        return {}
    folder = resources.files("inboxd.admin.screens").joinpath("texts")
    return tomllib.loads(folder.joinpath(f"{language}.toml").read_text("utf-8"))


def json_text(value: object) -> str:
    """A JSON value for a person: indented, as it is. Raises RequestRefused as `json_of` does."""
    return json_of(value, indent=True).decode()
