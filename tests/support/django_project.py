"""Django in the tests' process: configured once, with a connection to each test's database.

    connection = django_connection(database.dsn)

Promises: Django is not configured before a test asks for it. Tests are async functions, in which
Django refuses connections unless DJANGO_ALLOW_ASYNC_UNSAFE is set.
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
    """An entry of DATABASES for a URL."""
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
    """Configure Django, unless it is configured."""
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
    setup_test_environment()  # adds to each response the templates and contexts that made it


def django_connection(dsn: str) -> Any:
    """This thread's `connections["default"]`, now connected to this database."""
    setup()
    if "default" in connections:
        connections["default"].close()
        del connections["default"]
    connections.settings["default"] = database(dsn)
    connections.settings.update(connections.configure_settings(dict(connections.settings)))
    return connections["default"]
