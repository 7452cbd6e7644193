"""How a worker works: `[worker]`, `[events]`, `[commands]`, `[wakeups]`.

What belongs to one queue, topic or type is in `inboxd.settings.overrides`.
"""

import socket
from typing import Literal

from pydantic import Field

from inboxd.settings.base import Section, seconds
from inboxd.settings.values import Duration, Names, Size

# What becomes of events that no living worker handles.
Unhandled = Literal["keep", "dead", "ignore"]


class Worker(Section):
    """This daemon process: what it serves, and how it shows that it lives."""

    name: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=200,
        description="Name on screens and in logs, the host's by default; it need not be unique. "
        "Set it where hosts' names say little, as in containers.",
    )
    plugins: Names = Field(
        (),
        description="Entry points to load; empty: all that are installed. Set it to divide "
        "plugins among workers; `inboxd migrate` runs the migrations of the same ones.",
    )
    queues: Names = Field(
        (), description="Queues to serve; empty: all. Set it to give a queue workers of its own."
    )
    topics: Names = Field(
        (),
        description='Topics to serve, "default" is one; empty: all. Set it to give a topic '
        "workers of its own. What its plugins declare is declared all the same.",
    )
    lease: Duration = Field(
        seconds(30),
        description="Silence after which the others take a worker for dead and its commands over. "
        "Shorten it when commands of dead workers wait for too long; lengthen it when living ones "
        "are taken for dead, such as paused machines.",
    )
    heartbeat_interval: Duration = Field(
        seconds(5),
        description="How often the worker shows that it lives, looks for commands to cancel, and "
        "tests the listening connection; at most a quarter of the lease, so that three may fail. "
        "Lengthen it, and the lease, when hundreds of workers weigh on the server.",
    )
    drain_timeout: Duration = Field(
        seconds(25),
        description="What running handlers get after SIGTERM; below the 30s of Kubernetes. Raise "
        "both when deploys cut off long commands.",
    )
    stall_timeout: Duration = Field(
        seconds(60),
        description="How long a handler may block the event loop before the process is ended. "
        "Shorten it to get a blocked worker back sooner; raise it while a handler is known to "
        "block for longer.",
    )
    poll_interval: Duration = Field(
        seconds(5),
        description="Longest sleep without a look: the latency when every wake-up is lost. "
        'Shorten it where wakeups.mode is "off"; lengthen it when many idle workers weigh on the '
        "server.",
    )
    unhandled_grace: Duration = Field(
        seconds(30),
        description="How long a type may have no living worker that handles it before its "
        "commands become dead letters, and its events what `unhandled` says. Lengthen it when a "
        "rolling deploy takes longer.",
    )
    crash_limit: int = Field(
        3,
        ge=1,
        le=100,
        description="Deaths of a worker that make a row a dead letter, if it ran alone at each. "
        "Raise it where machines are often taken away; lower it when each crash is costly.",
    )


class Events(Section):
    """The event processor: a page is one transaction."""

    page_rows: int = Field(
        1000,
        ge=1,
        le=10_000,
        description="Most events in one transaction. Lower it when too much is repeated after a "
        "page that failed as a whole.",
    )
    page_bytes: Size = Field(
        32 * 1024**2,
        description="Most bytes of payloads and headers in one page. Lower it when large payloads "
        "take too much memory.",
    )
    page_time: Duration = Field(
        seconds(1),
        description="When a page starts no further event: rows that handlers touched stay locked "
        "until its commit. Lower it when other transactions wait for those locks.",
    )
    timeout: Duration = Field(
        seconds(10),
        description="What one event's handlers get; less than "
        "database.idle_in_transaction_timeout. Raise it when good runs are cut off, or make slow "
        "work a command.",
    )
    unhandled: Unhandled = Field(
        "keep",
        description="What becomes of events that no living worker handles. keep: they wait, "
        "visible, for a handler; dead: dead letters after worker.unhandled_grace; ignore: they "
        "end as dismissed after it, and are counted. Choose dead or ignore where types come that "
        "nobody will ever handle. The leader decides: give all workers the same.",
    )
    chunk_concurrency: int = Field(
        4,
        ge=1,
        le=64,
        description="Most transactions with chunks of batch topics at the same time in one worker "
        "process, beside the pages of single events. Raise it when due chunks wait; each has one "
        "of database.pool_size, which must be larger.",
    )
    chunk_timeout: Duration = Field(
        seconds(300),
        description="What the handler of a chunk gets, unless it declares its own. Raise it when "
        "long chunks are cut off.",
    )


class Commands(Section):
    """The command processor: each command is atomic on its own."""

    page_rows: int = Field(
        500,
        ge=1,
        le=10_000,
        description="Most commands in one claim, and most that are leased ahead of their start "
        "while commands end at once. Lower it when one worker leases what others could run.",
    )
    concurrency: int = Field(
        100,
        ge=1,
        le=10_000,
        description="Most commands that run at the same time in one worker process. Raise it when "
        "handlers mostly wait and commands are late; lower it when they use too much memory or "
        "processor.",
    )
    in_flight_bytes: Size = Field(
        64 * 1024**2,
        description="Most bytes of payloads in flight. Lower it when large payloads take too much "
        "memory; raise it when they let too few commands run.",
    )
    timeout: Duration = Field(
        seconds(60),
        description="What one command's handler gets, unless it declares its own. Raise it when "
        "good runs are cut off; lower it to be rid of hanging ones sooner.",
    )


class Wakeups(Section):
    """How the worker learns of new rows; correctness never depends on it."""

    mode: Literal["quiet", "always", "off"] = Field(
        "quiet",
        description="quiet: producers notify only while a worker sleeps; always: at each insert, "
        "where rows wait for the poll otherwise; off: poll only, as behind PgBouncer in "
        "transaction mode.",
    )
