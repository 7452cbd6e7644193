"""Removes inboxd from a database: `inboxd uninstall`."""

from inboxd.features.feature import CliCommand, Feature
from inboxd.features.uninstall.cli import uninstall

FEATURE = Feature(
    "uninstall",
    (
        CliCommand(
            uninstall,
            ("inboxd uninstall --dry-run", "inboxd uninstall --yes"),
            before="declare",
        ),
    ),
)
