"""Settings: TOML and environment become frozen models, a section for each room.

`load` reads all settings and refuses mistakes; `read` returns the valid part with the mistakes.
`describe` lists settings without secrets, `reloadable` names the settings that SIGHUP may change.
"""

from inboxd.settings.admin import Admin, AdminOidc, AdminProxy, AdminToken, AdminUser
from inboxd.settings.breakers import BreakerOverride
from inboxd.settings.brokers import Broker, MessageSource, Relay
from inboxd.settings.database import Database
from inboxd.settings.describe import Changes, describe, reloadable, taken_over
from inboxd.settings.inbound import (
    CertificateScheme,
    HmacScheme,
    Inbound,
    InboundHttp,
    InboundSpool,
    WebhookKey,
    WebhookSource,
)
from inboxd.settings.loading import Reading, load, read
from inboxd.settings.maintenance import Dedup, DedupSource, History, Maintenance
from inboxd.settings.notices import Notices
from inboxd.settings.outbound import Outbound, OutboundHttp, OutboundWebhooks, Target
from inboxd.settings.overrides import (
    Queue,
    RetryDefaults,
    ScheduleOverride,
    TopicOverride,
    TypeOverride,
)
from inboxd.settings.processing import Commands, Events, Unhandled, Wakeups, Worker
from inboxd.settings.sections import ANY, Settings
from inboxd.settings.telemetry import Http, Logs

__all__ = [
    "ANY",
    "Admin",
    "AdminOidc",
    "AdminProxy",
    "AdminToken",
    "AdminUser",
    "BreakerOverride",
    "Broker",
    "CertificateScheme",
    "Changes",
    "Commands",
    "Database",
    "Dedup",
    "DedupSource",
    "Events",
    "History",
    "HmacScheme",
    "Http",
    "Inbound",
    "InboundHttp",
    "InboundSpool",
    "Logs",
    "Maintenance",
    "MessageSource",
    "Notices",
    "Outbound",
    "OutboundHttp",
    "OutboundWebhooks",
    "Queue",
    "Reading",
    "Relay",
    "RetryDefaults",
    "ScheduleOverride",
    "Settings",
    "Target",
    "TopicOverride",
    "TypeOverride",
    "Unhandled",
    "Wakeups",
    "WebhookKey",
    "WebhookSource",
    "Worker",
    "describe",
    "load",
    "read",
    "reloadable",
    "taken_over",
]
