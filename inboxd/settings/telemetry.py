"""Health, metrics and logs of a daemon: `[http]`, `[log]`.

Promises that by default nothing is reachable from other machines. Known limit: no login.
"""

from typing import Literal

from pydantic import Field

from inboxd.settings.base import Section


class Http(Section):
    """Health and metrics; shows no payloads."""

    enabled: bool = Field(
        default=True,
        description="Whether health and metrics are served. Set it to false if nothing may listen.",
    )
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. Change it when probes or Prometheus come from other "
        "machines; see `allow_remote`.",
    )
    port: int = Field(
        8797,
        ge=0,
        le=65535,
        description="TCP port; 0: any free port. Change it when several workers share a host.",
    )
    allow_remote: bool = Field(
        default=False,
        description="Whether `host` may be reachable from other machines, without a login. Set "
        "it to true in a container, or behind a firewall.",
    )


class Logs(Section):
    """The log that the process writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Lowest severity that is logged. Set it to debug while you look for a cause, "
        "and to warning where there are too many lines.",
    )
    format: Literal["auto", "json", "console"] = Field(
        "auto",
        description="auto: console on a terminal, otherwise JSON, one object per line. Set it "
        "when the collector of your logs needs another format.",
    )
    rows: bool = Field(
        default=False,
        description="Whether each settled row is logged at level info, and each failure with the "
        "plugin's frames; at level debug both are always logged. Set it to true while you follow "
        "single rows.",
    )
