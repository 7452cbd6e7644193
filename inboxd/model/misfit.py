"""Messages about invalid values, for settings, payloads and the command line.

They replace the library's, and hold no part of the value; for kinds of newer libraries in part.
"""

import re
from collections.abc import Mapping
from typing import Any

from inboxd.model.wording import plural

_OBJECT = "must be an object with names and values"
_LIST = "must be a list"
_WHOLE = "must be a whole number"
_NUMBER = "must be a number"
_DATE = "must be a date, such as 2026-01-31"
_MOMENT = "must be a date with a time, such as 2026-01-31T12:30:00Z"
_TIME = "must be a time, such as 12:30:00"
_DURATION = "must be a duration, such as PT30S"
_UUID = "must be a UUID"
_URL = "must be a URL"

# By the kind of the error: the message; braces name values of the error's context.
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "invalid_key": "must have names that are texts",
    "json_invalid": "is not valid JSON: {error}",
    "json_type": "must be a text with JSON",
    "none_required": "must be null",
    "string_type": "must be a text",
    "string_sub_type": "must be a text",
    "string_unicode": "must be a text",
    "string_pattern_mismatch": "must match the pattern '{pattern}'",
    "bytes_type": "must be a text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": "has too many digits",
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "decimal_type": _NUMBER,
    "decimal_parsing": _NUMBER,
    "decimal_max_digits": "must have at most {max_digits} digits",
    "decimal_max_places": "must have at most {decimal_places} digits after the point",
    "decimal_whole_digits": "must have at most {whole_digits} digits before the point",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "iterable_type": _LIST,
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": _DATE,
    "date_past": "must be in the past",
    "date_future": "must be in the future",
    "datetime_type": _MOMENT,
    "datetime_parsing": _MOMENT,
    "datetime_from_date_parsing": _MOMENT,
    "datetime_object_invalid": _MOMENT,
    "datetime_past": "must be in the past",
    "datetime_future": "must be in the future",
    "timezone_aware": "must have a time zone",
    "timezone_naive": "must have no time zone",
    "time_type": _TIME,
    "time_parsing": _TIME,
    "time_delta_type": _DURATION,
    "time_delta_parsing": _DURATION,
    "uuid_type": _UUID,
    "uuid_parsing": _UUID,
    "uuid_version": "must be a UUID of version {expected_version}",
    "url_type": _URL,
    "url_parsing": _URL,
    "url_syntax_violation": _URL,
    "url_scheme": "must be a URL that begins with {expected_schemes}",
    "union_tag_not_found": "must name its kind in {discriminator}",
    "union_tag_invalid": "must have one of {expected_tags} in {discriminator}",
}
# Limits of lengths, by the kind of the error: the bound, its name in the context, the unit.
_LENGTHS = {
    "string_too_short": ("at least", "min_length", "character"),
    "string_too_long": ("at most", "max_length", "character"),
    "url_too_long": ("at most", "max_length", "character"),
    "bytes_too_short": ("at least", "min_length", "byte"),
    "bytes_too_long": ("at most", "max_length", "byte"),
    "too_short": ("at least", "min_length", "item"),
    "too_long": ("at most", "max_length", "item"),
}
_BEGINNING = re.compile(
    r"(?:Value error, )|(?:(?:[A-Z]\w*|UUID input|Decimal input|JSON input) should )"
)


def misfit(kind: str, context: Mapping[str, Any] | None) -> str | None:
    """Return the message for an error of this kind, without a subject; None for other kinds."""
    try:
        if kind in _LENGTHS:
            bound, name, unit = _LENGTHS[kind]
            return f"must have {bound} {plural((context or {})[name], unit)}"
        return _WORDS[kind].format_map(context or {}) if kind in _WORDS else None
    except (LookupError, TypeError, ValueError):  # a plugin's error, with a context of its own
        return None


def in_other_words(message: str) -> str:
    return _BEGINNING.sub(lambda found: "" if found[0].startswith("Value") else "must ", message, 1)
