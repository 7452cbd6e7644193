"""Django in the process of the tests: configured once, with a connection for each test's database.

Promises: nothing of it is there before a test asks for it. Tests are async functions, in which
Django refuses its connections; it is told that here it may.
"""

import os
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connections
from django.test.utils import setup_test_environment

APPS = (
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "inboxd.contrib.django",
)


def database(dsn: str) -> dict[str, Any]:
    """One of DATABASES, for a URL."""
    parts = urlsplit(dsn)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname,
        "PORT": parts.port,
    }


def setup() -> None:
    """Configure Django, unless that was done."""
    if settings.configured:
        return
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.dummy"}},
        INSTALLED_APPS=APPS,
        LOGGING_CONFIG=None,
        MIDDLEWARE=(
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ),
        ROOT_URLCONF="tests.support.django_urls",
        SECRET_KEY="for tests",
        TEMPLATES=(
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": (
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    )
                },
            },
        ),
        USE_TZ=True,
    )
    django.setup()
    setup_test_environment()  # a page tells what it was made of


def django_connection(dsn: str) -> Any:
    """This thread's `connections["default"]`, on another database than before."""
    setup()
    if "default" in connections:
        connections["default"].close()
        del connections["default"]
    connections.settings["default"] = database(dsn)
    connections.settings.update(connections.configure_settings(dict(connections.settings)))
    return connections["default"]
