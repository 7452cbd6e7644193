"""Renders a page as HTML: templates, the texts of a language, and the formats of values.

Promises that every value is escaped, that a missing value is an error, and that every address
begins with the prefix. Known limits: a text that a catalogue (`texts/LANGUAGE.toml`) lacks stays
English, and so do sentences that operations write: refusals, notes, the doctor's findings.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from inboxd.admin.answers import json_of
from inboxd.admin.screens import bars, charts, graphs, states
from inboxd.admin.screens.formatting import FILTERS
from inboxd.model.wording import STATUS_WORDS

LANGUAGES = ("en", "pt-BR")


class Renderer:
    """Each template is read when it is first needed."""

    def __init__(self) -> None:
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
        self._templates.globals |= {"states": states}

    def html(self, template: str, language: str, prefix: str, values: Mapping[str, Any]) -> str:
        """prefix: of every path, without a slash at its end."""
        texts = _texts(language)

        def url(path: str) -> str:
            return f"{prefix}{path}"

        def say(text: str, **words: Any) -> str:
            """A word may be a sentence (`actions/contract.py`) itself."""
            told = texts.get(text, text)
            own = {
                name: say(word.text, **word.words) if hasattr(word, "words") else word
                for name, word in words.items()
            }
            return told.format(**own) if own else told

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
    """It is indented. Raises RequestRefused like `json_of`."""
    return json_of(value, indent=True).decode()
