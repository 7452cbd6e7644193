"""What every section of the settings is made of."""

from datetime import timedelta

from pydantic import BaseModel, ConfigDict


def seconds(count: float) -> timedelta:
    """A default in seconds."""
    return timedelta(seconds=count)


class Section(BaseModel):
    """What all sections share: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
