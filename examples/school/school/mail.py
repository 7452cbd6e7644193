"""One e-mail over SMTP, and what the server's answer means for a retry.

Owns the dialogue. Promises: raises Reject when no repetition can help (an answer of 5xx); whatever
else goes wrong is raised as it is, and so retried by the handler's policy.
Known limit: a connection for each e-mail, without TLS and login.
"""

import os
import smtplib
from email.message import EmailMessage
from typing import NamedTuple

from inboxd import Reject

_TIMEOUT = 10.0  # seconds; less than the handler's own, so that the error says what was slow


class Mail(NamedTuple):
    """An e-mail; `key` is the same at every attempt to send it."""

    key: str
    to: str
    subject: str


def deliver(mail: Mail) -> None:
    """Hand the mail to the server that the environment variable SCHOOL_SMTP names (host:port)."""
    host, _, port = os.environ.get("SCHOOL_SMTP", "localhost:25").partition(":")
    try:
        # A name is given, because smtplib would otherwise ask the DNS for it each time.
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
