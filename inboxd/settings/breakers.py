"""What applies to one breaker: `[breakers.NAME]`.

Known limit: which breakers there are, and whether a fallback leads back to its own, only the
plugins know; that is checked when they are loaded.
"""

from datetime import timedelta

from pydantic import Field

from inboxd.settings.base import Section
from inboxd.settings.values import Duration


class BreakerOverride(Section):
    """When a breaker opens, and for how long; what is not set is as its plugin declares it."""

    window: Duration = Field(
        timedelta(seconds=30),
        description="How far back calls count for the ratios. Lengthen it for a target that is "
        "called seldom.",
    )
    minimum_calls: int = Field(
        20,
        ge=1,
        le=1_000_000,
        description="Calls in the window below which no ratio is judged. Lower it for a target "
        "that is called seldom.",
    )
    failure_ratio: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Part of the calls that must have failed for the breaker to open; 0: the "
        "ratio is not judged. Lower it if the target suffers from calls while it is half down.",
    )
    consecutive_failures: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="Failures in a row that open the breaker; 0: they are not judged. Lower it if "
        "too many commands spend an attempt before it opens.",
    )
    slow_call: Duration | None = Field(
        None,
        description="A call that takes longer is slow; unset: none is. Set it where a target that "
        "answers too slowly should be left alone as well.",
    )
    slow_ratio: float = Field(
        0.8,
        gt=0,
        le=1,
        description="Part of the calls in the window that must have been slow for the breaker to "
        "open.",
    )
    first_break: Duration = Field(
        timedelta(seconds=5),
        description="How long the first break lasts; each one that was in vain is followed by one "
        "twice as long. Lengthen it for a target that takes its time to come back.",
    )
    longest_break: Duration = Field(
        timedelta(minutes=5),
        description="The longest break. Shorten it if work must go on soon after the target is "
        "back.",
    )
    jitter: float = Field(
        0.2,
        ge=0,
        le=1,
        description="By how much of itself a break may be longer, at random. Raise it if many "
        "fleets come back to one target at the same moment.",
    )
    probes: int = Field(
        3,
        ge=1,
        le=1_000,
        description="Calls that one worker tries when a break is over; if all end well, the "
        "breaker closes. Lower it to 1 where a call that fails is dear.",
    )
    fallback: str = Field(
        "wait",
        description='What becomes of commands while the breaker is open. "wait": they wait, and '
        "spend no attempt; a command type: one of that type is sent in place of each, with its "
        "payload.",
    )
