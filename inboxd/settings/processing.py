"""How a worker works: `[worker]`, `[events]`, `[commands]`, `[wakeups]`.

Owns the bounds of one daemon process. Promises the bounds of each value. Known limit:
what belongs to one queue, topic or type is in `inboxd.settings.lanes`.
"""

import socket
from typing import Literal

from pydantic import Field

from inboxd.settings.section import Section, seconds
from inboxd.settings.values import Duration, Names, Size

# What becomes of events that no living worker handles.
Unhandled = Literal["keep", "dead", "ignore"]


class Worker(Section):
    """This daemon process: what it serves, and how it shows that it lives."""

    name: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=200,
        description="Name on screens and in logs, the host's by default; it need not be unique.",
    )
    plugins: Names = Field((), description="Entry points to load; empty: all that are installed.")
    queues: Names = Field((), description="Queues to serve; empty: all.")
    topics: Names = Field(
        (),
        description='Topics to serve, "default" is one; empty: all. What its plugins declare is '
        "declared all the same.",
    )
    lease: Duration = Field(
        seconds(30),
        description="Silence after which the others take a worker for dead and its commands over.",
    )
    heartbeat_interval: Duration = Field(
        seconds(5),
        description="How often the worker shows that it lives; at most a quarter of the lease, so "
        "that three may fail.",
    )
    drain_timeout: Duration = Field(
        seconds(25),
        description="What running handlers get after SIGTERM; below the 30s of Kubernetes.",
    )
    stall_timeout: Duration = Field(
        seconds(60),
        description="How long a handler may block the event loop before the process is ended.",
    )
    poll_interval: Duration = Field(
        seconds(5),
        description="Longest sleep without a look: the latency when every wake-up is lost.",
    )
    unhandled_grace: Duration = Field(
        seconds(30),
        description="How long a type may have no living worker that handles it before its commands "
        "become dead letters, and its events what `unhandled` says; covers a rolling deploy.",
    )
    crash_limit: int = Field(
        3,
        ge=1,
        le=100,
        description="Deaths of a worker that make a row a dead letter, if it ran alone at each.",
    )


class Events(Section):
    """The event processor: a page is one transaction."""

    page_rows: int = Field(1000, ge=1, le=10_000, description="Most events in one transaction.")
    page_bytes: Size = Field(
        32 * 1024**2, description="Most bytes of payloads and headers in one page: bounds memory."
    )
    page_time: Duration = Field(
        seconds(1),
        description="When a page starts no further event: rows that handlers touched stay locked "
        "until its commit.",
    )
    page_commands: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="Commands and events sent after which a page starts no more events.",
    )
    timeout: Duration = Field(
        seconds(10),
        description="What one event's handlers get; less than "
        "database.idle_in_transaction_timeout. Slow work is a command.",
    )
    unhandled: Unhandled = Field(
        "keep",
        description="What becomes of events that no living worker handles. keep: they wait, "
        "visible, for a handler; dead: dead letters after worker.unhandled_grace; ignore: they end "
        "as dismissed after it, and are counted. The worker that leads decides: give all workers "
        "the same.",
    )
    chunks: int = Field(
        4,
        ge=1,
        le=64,
        description="Most transactions with chunks of batch topics at the same time, beside the "
        "pages of single events; each has one of database.pool_size, which must be larger.",
    )
    chunk_timeout: Duration = Field(
        seconds(300), description="What the handler of a chunk gets, unless it declares its own."
    )


class Commands(Section):
    """The command processor: each command is atomic on its own."""

    page_rows: int = Field(
        500,
        ge=1,
        le=10_000,
        description="Most commands in one claim, and most that are leased ahead of their start "
        "while commands end at once.",
    )
    concurrency: int = Field(
        100, ge=1, le=10_000, description="Most commands that run at the same time."
    )
    in_flight_bytes: Size = Field(
        64 * 1024**2, description="Most bytes of payloads in flight: bounds memory."
    )
    timeout: Duration = Field(
        seconds(60), description="What one command's handler gets, unless it declares its own."
    )


class Wakeups(Section):
    """How the worker learns of new rows; correctness never depends on it."""

    mode: Literal["quiet", "always", "off"] = Field(
        "quiet",
        description="quiet: producers notify only while a worker sleeps; always: at each insert; "
        "off: poll only (PgBouncer in transaction mode).",
    )
    sweep_interval: Duration = Field(
        seconds(1),
        description="How often, under backlog, a claim starts from the oldest row to find late "
        "commits.",
    )
    listen_check_interval: Duration = Field(
        seconds(10),
        description="How often the listening connection is tested: a half-open one is silent.",
    )
