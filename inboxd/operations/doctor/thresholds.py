"""The figures from which a finding is a notice, a warning or critical.

They suit a service that handles rows within minutes; with slow queues, read the figures.
"""

from datetime import timedelta

from inboxd.operations.doctor.finding import Levels

STATEMENT_SECONDS = 2.0  # time limit of each statement
COUNTED = 10_000  # the most rows that are counted
SHOWN = 5  # the most findings of each kind; the worst first

ANY = Levels(notice=None, warning=None, critical=None)

# Coming days with partitions, without today; fewer is worse.
DAYS_AHEAD_ENOUGH = 3

# Time since retention should have dropped a partition.
RETENTION_SECONDS = Levels(notice=None, warning=2 * 86_400, critical=None)

# Dead rows as a multiple of autovacuum's threshold; fewer rows than the minimum are ok.
DEAD_TIMES_DUE = Levels(notice=2, warning=5, critical=50)
DEAD_ROWS_LEAST = 20_000

# Age of a snapshot; transactions that began since.
SNAPSHOT_SECONDS = Levels(notice=60, warning=600, critical=3600)
SNAPSHOT_TRANSACTIONS = Levels(notice=1_000_000, warning=10_000_000, critical=200_000_000)
LOCK_WAIT_SECONDS = Levels(notice=2, warning=30, critical=300)
# Autovacuum freezes by itself at 200 million; PostgreSQL stops at 2.1 billion.
UNFROZEN_TRANSACTIONS = Levels(notice=400_000_000, warning=800_000_000, critical=1_500_000_000)

# Age of the oldest due row, without paused lanes.
BACKLOG_SECONDS = Levels(notice=60, warning=600, critical=3600)
# Age of events without a handler: no row is lost, and no worker is too slow.
KEPT_SECONDS = Levels(notice=0, warning=600, critical=None)
FAILED_ROWS = Levels(notice=1, warning=1_000, critical=None)
FAILED_LAST_HOUR = Levels(notice=1, warning=100, critical=None)
BLOCKED_SECONDS = Levels(notice=0, warning=3600, critical=86_400)
SUSPECT_SECONDS = Levels(notice=0, warning=1800, critical=None)
RUNNING_SECONDS = Levels(notice=3600, warning=86_400, critical=None)
# Time since the declaration of a topic whose intake still runs; its lines wait until it ends.
INTAKE_SECONDS = Levels(notice=0, warning=300, critical=3600)
# Longest expected time for which a command that is due in the future holds its unique key.
KEY_TAKEN_FOR = timedelta(days=366)
PAUSED_SECONDS = Levels(notice=0, warning=86_400, critical=None)
# An endpoint that fails for days is disabled: warn operators before.
ENDPOINT_FAILING_SECONDS = Levels(notice=0, warning=86_400, critical=None)
# Age of the oldest spooled receipt: a spool drains within seconds once the database is back.
SPOOLED_SECONDS = Levels(notice=0, warning=300, critical=3600)
FOLD_SECONDS = Levels(notice=10, warning=60, critical=600)

# Time without a heartbeat of a worker, and of the holder of a running command, in leases.
SILENT_LEASES = Levels(notice=None, warning=0.5, critical=1)
STUCK_LEASES = Levels(notice=None, warning=1, critical=3)

# Age of the newest sample of the backlog, in intervals.
SAMPLE_INTERVALS = Levels(notice=3, warning=12, critical=None)

CLOCK_SECONDS = Levels(notice=1, warning=30, critical=None)
NOTIFICATION_SHARE = Levels(notice=0.1, warning=0.5, critical=0.9)
CONNECTION_SHARE = Levels(notice=0.7, warning=0.85, critical=0.95)
# Share of the server's locks that one read of all history takes; a share that allows several.
HISTORY_LOCKS = Levels(notice=0.25, warning=0.5, critical=None)
HISTORY_LOCKS_ENOUGH = 0.1
SLOT_BYTES = Levels(notice=0, warning=1 << 30, critical=50 << 30)
DEDUP_ROWS = Levels(notice=200_000_000, warning=None, critical=None)

# Days before the end of a webhook source's last key, or of the listener's certificate.
EXPIRES_DAYS = 14
# The smallest body limit that some senders of webhooks promise.
WEBHOOK_BODY_BYTES = 20_000
# Receipts that became dead letters are a warning while the newest is at most this old.
DOUBTFUL_FRESH_SECONDS = 86_400
# Age of the oldest receipt that waits for its source to be resumed.
HELD_SECONDS = Levels(notice=0, warning=3600, critical=None)

# Newest days of history that are searched for the highest number of a sequence.
SEQUENCE_DAYS = 8
# Age of the oldest event of a relay that is stopped by its breaker.
STANDING_SECONDS = Levels(notice=0, warning=300, critical=3600)

# Time since a worker last read a source of messages.
UNREAD_SECONDS = Levels(notice=0, warning=300, critical=3600)
# Time since a source last stored a page, although its broker has more.
UNMOVED_SECONDS = Levels(notice=60, warning=600, critical=3600)
