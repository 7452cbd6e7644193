"""One e-mail over SMTP, and what the server's answer means for a retry.

Owns the dialogue. Promises: raises Reject when no repetition can help (a 5xx answer); raises every
other error unchanged, so the handler's policy retries it.
Known limit: each e-mail needs a connection of its own, without TLS and login.
"""

import os
import smtplib
from email.message import EmailMessage
from typing import NamedTuple

from inboxd import Reject

_TIMEOUT = 10.0  # seconds; less than the handler's timeout, so that the error names the slow step


class Mail(NamedTuple):
    """An e-mail; `key` is the same at every attempt to send it."""

    key: str
    to: str
    subject: str


def deliver(mail: Mail) -> None:
    """Hand the mail to the server that the environment variable SCHOOL_SMTP names (host:port)."""
    host, _, port = os.environ.get("SCHOOL_SMTP", "localhost:25").partition(":")
    try:
        # Name this host, because smtplib would otherwise ask the DNS each time.
        with smtplib.SMTP(host, int(port), "school.example", _TIMEOUT) as server:
            server.send_message(_message(mail))
    except smtplib.SMTPResponseException as error:
        _reject_permanent(error.smtp_code)
        raise
    except smtplib.SMTPRecipientsRefused as error:
        _reject_permanent(*(code for code, _ in error.recipients.values()))
        raise


def _message(mail: Mail) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "office@school.example"
    message["To"] = mail.to
    message["Subject"] = mail.subject
    message["Message-ID"] = f"<{mail.key}@school.example>"
    message.set_content("Your teacher published a new activity. Have a look!")
    return message


def _reject_permanent(*codes: int) -> None:
    if all(code >= 500 for code in codes):
        raise Reject(f"the mail server refused for good ({', '.join(map(str, codes))})")
