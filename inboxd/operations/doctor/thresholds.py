"""From which figure on something is a notice, a warning or critical.

Owns every number. Promises that nothing else in this package holds one. Known limit: they suit a
service whose rows are handled within minutes; with slow queues, read the figures instead.
"""

from datetime import timedelta

from inboxd.operations.doctor.finding import Levels

STATEMENT_SECONDS = 2.0  # what one look's statement gets
COUNTED = 10_000  # rows, at most
SHOWN = 5  # at most, of each kind of trouble, the gravest first

ANY = Levels(notice=None, warning=None, critical=None)

# Days with partitions, today not counted; fewer is worse.
DAYS_AHEAD_ENOUGH = 3

# How long partitions are there that retention should have dropped.
RETENTION_SECONDS = Levels(notice=None, warning=2 * 86_400, critical=None)

# Dead rows, as a multiple of what autovacuum waits for; and the least that is worth a word.
DEAD_TIMES_DUE = Levels(notice=2, warning=5, critical=50)
DEAD_ROWS_LEAST = 20_000

# How long a snapshot is held; and how many transactions began since.
SNAPSHOT_SECONDS = Levels(notice=60, warning=600, critical=3600)
SNAPSHOT_TRANSACTIONS = Levels(notice=1_000_000, warning=10_000_000, critical=200_000_000)
LOCK_WAIT_SECONDS = Levels(notice=2, warning=30, critical=300)
# autovacuum comes by itself at 200 million; PostgreSQL stops at 2.1 thousand millions.
UNFROZEN_TRANSACTIONS = Levels(notice=400_000_000, warning=800_000_000, critical=1_500_000_000)

# The oldest row that is due; a lane that is paused is never more than a notice.
BACKLOG_SECONDS = Levels(notice=60, warning=600, critical=3600)
# What nobody handles: nothing is lost, and no worker that is there is too slow.
KEPT_SECONDS = Levels(notice=0, warning=600, critical=None)
FAILED_ROWS = Levels(notice=1, warning=1_000, critical=None)
FAILED_LAST_HOUR = Levels(notice=1, warning=100, critical=None)
BLOCKED_SECONDS = Levels(notice=0, warning=3600, critical=86_400)
SUSPECT_SECONDS = Levels(notice=0, warning=1800, critical=None)
RUNNING_SECONDS = Levels(notice=3600, warning=86_400, critical=None)
# Since a topic was declared whose events are still being taken in: it stands still meanwhile.
INTAKE_SECONDS = Levels(notice=0, warning=300, critical=3600)
# Until when a command that is due far ahead keeps its unique key from all others.
KEY_TAKEN_FOR = timedelta(days=366)
PAUSED_SECONDS = Levels(notice=0, warning=86_400, critical=None)
# An endpoint that fails for days is disabled: somebody should have heard of it before.
ENDPOINT_FAILING_SECONDS = Levels(notice=0, warning=86_400, critical=None)
# What waits in a spool: it is drained within seconds once the database is back.
SPOOLED_SECONDS = Levels(notice=0, warning=300, critical=3600)
FOLD_SECONDS = Levels(notice=10, warning=60, critical=600)

# Silence of a worker, and commands in the hands of a dead one, in leases.
SILENT_LEASES = Levels(notice=None, warning=0.5, critical=1)
STUCK_LEASES = Levels(notice=None, warning=1, critical=3)

# Age of the newest sample of the backlog, in intervals.
SAMPLE_INTERVALS = Levels(notice=3, warning=12, critical=None)

CLOCK_SECONDS = Levels(notice=1, warning=30, critical=None)
NOTIFICATION_SHARE = Levels(notice=0.1, warning=0.5, critical=0.9)
CONNECTION_SHARE = Levels(notice=0.7, warning=0.85, critical=0.95)
# Of the server's locks, what one look at all of history takes; and what leaves room for several.
HISTORY_LOCKS = Levels(notice=0.25, warning=0.5, critical=None)
HISTORY_LOCKS_ENOUGH = 0.1
SLOT_BYTES = Levels(notice=0, warning=1 << 30, critical=50 << 30)
DEDUP_ROWS = Levels(notice=200_000_000, warning=None, critical=None)

# Days before the end of a webhook source's last key, or of the listener's certificate.
EXPIRES_DAYS = 14
# Senders of webhooks keep below this at best.
WEBHOOK_BODY_BYTES = 20_000
# How new a contradiction or a broken body is that a sender is asked about.
DOUBTFUL_FRESH_SECONDS = 86_400
# The first receipt that waits for its source to be resumed.
HELD_SECONDS = Levels(notice=0, warning=3600, critical=None)

# Days of history in which the highest number of a sequence is looked for.
SEQUENCE_DAYS = 8
# The oldest event of a relay whose breaker is open: the broker is away.
STANDING_SECONDS = Levels(notice=0, warning=300, critical=3600)

# A source of messages that nobody reads, since its broker or the database is away.
UNREAD_SECONDS = Levels(notice=0, warning=300, critical=3600)
# Since a source stored its last page, though its broker has more.
UNMOVED_SECONDS = Levels(notice=60, warning=600, critical=3600)
