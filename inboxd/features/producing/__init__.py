"""Rows that an operator writes: one by hand, or those of a file."""

from inboxd.features.feature import CliCommand, Feature
from inboxd.features.producing.cli import emit, send

FEATURE = Feature(
    "producing",
    (
        CliCommand(
            emit,
            (
                """inboxd emit user.created '{"user_id": 7}' --tenant acme""",
                "inboxd emit user.created @user.json",
            ),
            before="status",
        ),
        CliCommand(
            send,
            ("""inboxd send email.welcome '{"user_id": 7}' --queue email --delay 10m""",),
            before="status",
        ),
    ),
)
