"""Settings of a worker's processing: `[worker]`, `[events]`, `[commands]`, `[wakeups]`.

Settings of one queue, topic or type are in `inboxd.settings.overrides`.
"""

import socket
from typing import Literal

from pydantic import Field

from inboxd.settings.base import Section, seconds
from inboxd.settings.values import Duration, Names, Size

# Treatment of events that no living worker handles.
Unhandled = Literal["keep", "dead", "ignore"]


class Worker(Section):
    """This daemon process: what it serves, its heartbeat and its time limits."""

    name: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=200,
        description="Name on screens and in logs, by default the host's name; it need not be "
        "unique. Set it if names of hosts say little, as in containers.",
    )
    plugins: Names = Field(
        (),
        description="Entry points of the plugins to load; empty: all that are installed. Set it "
        "to divide plugins among workers; `inboxd migrate` runs the migrations of the same "
        "plugins.",
    )
    queues: Names = Field(
        (), description="Queues to serve; empty: all. Set it to give a queue its own workers."
    )
    topics: Names = Field(
        (),
        description='Topics to serve, such as "default"; empty: all. Set it to give a topic its '
        "own workers. The worker still declares everything that its plugins declare.",
    )
    lease: Duration = Field(
        seconds(30),
        description="Time without a heartbeat after which the other workers take a worker for "
        "dead and run its commands. Shorten it when commands of dead workers wait for too "
        "long; lengthen it when living workers are taken for dead, as on paused machines.",
    )
    heartbeat_interval: Duration = Field(
        seconds(5),
        description="Interval at which the worker writes its heartbeat, looks for commands to "
        "cancel, and tests the listening connection; at most a quarter of the lease, so that three "
        "heartbeats can fail. Lengthen it, and the lease, when hundreds of workers burden the "
        "server.",
    )
    drain_timeout: Duration = Field(
        seconds(25),
        description="Time that running handlers get to finish after SIGTERM; keep it below the "
        "time after which Kubernetes kills (30s). Raise both when deploys cut off long commands.",
    )
    stall_timeout: Duration = Field(
        seconds(60),
        description="Time for which a handler may block the event loop before the process is "
        "ended. Shorten it to get a blocked worker back sooner; raise it while a handler is known "
        "to block for longer.",
    )
    poll_interval: Duration = Field(
        seconds(5),
        description="Longest time between two polls: the latency when every wake-up is lost. "
        'Shorten it if wakeups.mode is "off"; lengthen it when many idle workers burden the '
        "server.",
    )
    unhandled_grace: Duration = Field(
        seconds(30),
        description="Time without a living worker that handles a type, after which its commands "
        "become dead letters and its events are treated as events.unhandled says. Lengthen it when "
        "a rolling deploy takes longer.",
    )
    crash_limit: int = Field(
        3,
        ge=1,
        le=100,
        description="Number of worker deaths after which a row becomes a dead letter, if it ran "
        "alone at each. Also, from this number on (at least 2), a row's lost connections in one "
        "worker cost an attempt each. Raise it if machines are often taken away; lower it when "
        "each crash is costly.",
    )


class Events(Section):
    """The event processor: a page is one transaction."""

    page_rows: int = Field(
        1000,
        ge=1,
        le=10_000,
        description="Maximum events in one transaction. Lower it when too much work is repeated "
        "after a page that failed as a whole.",
    )
    page_bytes: Size = Field(
        32 * 1024**2,
        description="Maximum bytes of payloads and headers in one page. Lower it when large "
        "payloads take too much memory.",
    )
    page_time: Duration = Field(
        seconds(1),
        description="Time after which a page starts no further event; rows that handlers changed "
        "stay locked until its commit. Lower it when other transactions wait for those locks.",
    )
    timeout: Duration = Field(
        seconds(10),
        description="Time limit for the handlers of one event; less than "
        "database.idle_in_transaction_timeout. Raise it when it stops useful runs, or make slow "
        "work a command.",
    )
    unhandled: Unhandled = Field(
        "keep",
        description="Treatment of events that no living worker handles. keep: they wait, visible, "
        "for a handler; dead: they become dead letters after worker.unhandled_grace; ignore: they "
        "are dismissed after it, and counted. Choose dead or ignore if types arrive that will "
        "never have a handler. The leader decides: give all workers the same value.",
    )
    chunk_concurrency: int = Field(
        4,
        ge=1,
        le=64,
        description="Maximum transactions with chunks of batch topics at a time in one worker "
        "process, besides the pages of single events. Raise it when due chunks wait; each uses "
        "one of database.pool_size, which must be larger.",
    )
    chunk_timeout: Duration = Field(
        seconds(300),
        description="Time limit for the handler of a chunk, unless it declares its own. Raise it "
        "when long chunks are cut off.",
    )


class Commands(Section):
    """The command processor: each command is atomic on its own."""

    page_rows: int = Field(
        500,
        ge=1,
        le=10_000,
        description="Maximum commands in one claim, and maximum commands leased ahead of their "
        "start while commands end quickly. Lower it when one worker leases commands that others "
        "could run.",
    )
    concurrency: int = Field(
        100,
        ge=1,
        le=10_000,
        description="Maximum commands that run at a time in one worker process. Raise it when "
        "handlers mostly wait and commands are late; lower it when they use too much memory or "
        "processor.",
    )
    in_flight_bytes: Size = Field(
        64 * 1024**2,
        description="Maximum bytes of payloads in flight. Lower it when large payloads take too "
        "much memory; raise it when this limit lets too few commands run.",
    )
    timeout: Duration = Field(
        seconds(60),
        description="Time limit for the handler of one command, unless it declares its own. Raise "
        "it when it stops useful runs; lower it to end hanging runs sooner.",
    )


class Wakeups(Section):
    """How the worker learns of new rows; correctness never depends on it."""

    mode: Literal["quiet", "always", "off"] = Field(
        "quiet",
        description="quiet: producers notify only while a worker sleeps; always: producers notify "
        "at each insert, for rows that otherwise wait for the poll; off: workers only poll, as "
        "behind PgBouncer in transaction mode.",
    )
