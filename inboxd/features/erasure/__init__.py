"""`inboxd erase`: by tenant or entity, as the screens do too, and webhooks by a text."""

from inboxd.features.erasure.cli import erase
from inboxd.features.feature import CliCommand, Feature

FEATURE = Feature(
    "erasure",
    (
        CliCommand(
            erase,
            (
                "inboxd erase --entity-type user --entity-id 42 --dry-run",
                "inboxd erase --tenant acme --reason 'the contract ended' --yes",
                "inboxd erase --receipts-matching 'ada@example.com' --dry-run",
            ),
            before="pause",
        ),
    ),
)
