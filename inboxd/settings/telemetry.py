"""What a daemon shows of itself: `[http]`, `[log]`.

Promises that nothing is reachable from other machines by default. Known limit: there is no login.
"""

from typing import Literal

from pydantic import Field

from inboxd.settings.base import Section


class Http(Section):
    """Health and metrics; shows no payloads."""

    enabled: bool = Field(
        default=True, description="Whether to serve them at all; false where nothing may listen."
    )
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. Change it when probes or Prometheus come from "
        "elsewhere; see `allow_remote`.",
    )
    port: int = Field(
        8797,
        ge=0,
        le=65535,
        description="TCP port; 0: any free one. Change it when several workers share a host.",
    )
    allow_remote: bool = Field(
        default=False,
        description="Whether `host` may be reachable from elsewhere: there is no login. True in a "
        "container, or behind a firewall.",
    )


class Logs(Section):
    """What the process writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Least severity that is written. debug while you look for a cause; warning "
        "where logs are too many.",
    )
    format: Literal["auto", "json", "console"] = Field(
        "auto",
        description="auto: console on a terminal, otherwise JSON, one object a line. Set it when "
        "what collects the logs wants another.",
    )
    rows: bool = Field(
        default=False,
        description="Whether each settled row is logged at level info, and a failure with the "
        "plugin's frames; at level debug both are in any case. True while you follow single rows.",
    )
