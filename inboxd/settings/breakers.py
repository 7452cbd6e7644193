"""Settings of one breaker: `[breakers.NAME]`.

Known limit: whether a breaker exists, and whether a fallback leads back to its own breaker, is
checked when the plugins are loaded, which declare both.
"""

from datetime import timedelta

from pydantic import Field

from inboxd.settings.base import Section
from inboxd.settings.values import Duration


class BreakerOverride(Section):
    """When a breaker opens, and for how long; an unset value keeps the plugin's declaration."""

    window: Duration = Field(
        timedelta(seconds=30),
        description="Time span of the calls that count for the ratios. Lengthen it for a target "
        "that is called rarely.",
    )
    minimum_calls: int = Field(
        20,
        ge=1,
        le=1_000_000,
        description="Number of calls in the window below which the ratios are ignored. Lower it "
        "for a target that is called rarely.",
    )
    failure_ratio: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of the calls in the window that must fail for the breaker to open; 0: "
        "failures are not counted this way. Lower it if calls harm the target while it is half "
        "down.",
    )
    consecutive_failures: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="Number of consecutive failures that opens the breaker; 0: they are not "
        "counted. Lower it if too many commands spend an attempt before the breaker opens.",
    )
    slow_call: Duration | None = Field(
        None,
        description="Duration above which a call is slow; unset: no call is slow. Set it if the "
        "breaker should also open for a target that answers too slowly.",
    )
    slow_ratio: float = Field(
        0.8,
        gt=0,
        le=1,
        description="Share of the calls in the window that must be slow for the breaker to open.",
    )
    first_break: Duration = Field(
        timedelta(seconds=5),
        description="Duration of the first break; while probes fail, each further break is twice "
        "as long. Lengthen it for a target that recovers slowly.",
    )
    longest_break: Duration = Field(
        timedelta(minutes=5),
        description="Longest duration of a break. Shorten it if work must resume soon after the "
        "target is back.",
    )
    jitter: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Largest share by which a break is lengthened at random; 0.2 is 20%. Raise it "
        "if many fleets return to one target at the same moment.",
    )
    probes: int = Field(
        3,
        ge=1,
        le=1_000,
        description="Number of calls that one worker tries after a break; if all succeed, the "
        "breaker closes. Lower it to 1 if a failed call is expensive.",
    )
    fallback: str = Field(
        "wait",
        description='How commands are treated while the breaker is open. "wait": they wait and '
        "spend no attempt; a command type: a command of this type is sent in place of each, with "
        "its payload.",
    )
