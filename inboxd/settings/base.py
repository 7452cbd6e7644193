"""The base class of every section of the settings."""

from datetime import timedelta

from pydantic import BaseModel, ConfigDict


def seconds(count: float) -> timedelta:
    """A default in seconds."""
    return timedelta(seconds=count)


class Section(BaseModel):
    """A frozen section in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
