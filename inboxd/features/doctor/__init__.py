"""Checks whether a daemon can start here (`check`), and the state of a running inbox (`doctor`)."""

from inboxd.features.doctor.check import check
from inboxd.features.doctor.doctor import doctor
from inboxd.features.feature import CliCommand, Feature

FEATURE = Feature(
    "doctor",
    (
        CliCommand(check, ("inboxd check -c config.toml", "inboxd check --json"), before="status"),
        CliCommand(
            doctor, ("inboxd doctor", "inboxd doctor --fail-on critical --json"), before="status"
        ),
    ),
)
