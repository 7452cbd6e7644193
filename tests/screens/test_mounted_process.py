"""FastAPI and Django serve the screens by uvicorn, with the code of docs/screens-security.md."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from tests.browser import school
from tests.screens.crawling import crawled
from tests.support import Database
from tests.support.guarded import guarded
from tests.support.ports import held_port
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

_PAGE = Path(__file__).parents[2] / "docs" / "screens-security.md"
# The rest of a Django project's settings, and its staff.
_PROJECT = """
SECRET_KEY = "for tests"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.support.django_urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite"}}
INSTALLED_APPS = [
    f"django.contrib.{each}" for each in ("admin", "auth", "contenttypes", "messages", "sessions")
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
"""
_STAFF = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("migrate", verbosity=0)
User.objects.create_superuser("zoe", password="secret")
User.objects.create_user("max", password="secret")
"""


def _code(mark: str) -> str:
    """The Python block of the page that contains `mark`."""
    blocks = re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text(), re.DOTALL | re.MULTILINE)
    [found] = [each for each in blocks if mark in each]
    return str(found)


@contextmanager
def _served(application: str, folder: Path, database: Database) -> Iterator[httpx.AsyncClient]:
    """A browser at an application that uvicorn serves."""
    (folder / "config.toml").write_text(f'[database]\ndsn = "{database.dsn}"\n')
    with held_port() as held:
        port = held.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "--port", str(port)]
        command += ["--app-dir", str(folder), application]
        with guarded(command, port, folder / "log", folder):
            yield httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                headers={"accept": "text/html"},
                trust_env=False,
                timeout=patient(),
            )


async def _closed(database: Database) -> bool:
    sessions = "select count(*) from pg_stat_activity where application_name like '%screens'"
    return bool(await database.fetchval(sessions) == 0)


async def _shows_the_school(browser: httpx.AsyncClient) -> None:
    seen = await crawled(browser, "/inbox/", str(browser.base_url).rstrip("/"))
    assert len({each.partition("?")[0] for each in seen}) > 30
    assert any(each.endswith(".css") for each in seen)
    assert (await browser.get("/inbox/events/1?payload=1")).status_code == httpx.codes.OK


async def test_screens_are_mounted_in_fastapi(database: Database, tmp_path: Path) -> None:
    await school.fill(database)
    (tmp_path / "service.py").write_text(_code("FastAPI"))
    with _served("service:app", tmp_path, database) as browser:
        async with browser:
            assert (await browser.get("/inbox/")).status_code == httpx.codes.FORBIDDEN
            browser.cookies.set("session", "of a colleague")
            await _shows_the_school(browser)
            assert (await browser.get("/docs")).status_code == httpx.codes.OK
            assert not await _closed(database)
    assert await _closed(database)


@pytest.mark.long
async def test_screens_are_mounted_in_django(database: Database, tmp_path: Path) -> None:
    await school.fill(database)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "asgi.py").write_text(_code("get_asgi_application"))
    (tmp_path / "shop" / "settings.py").write_text(_PROJECT)
    await anyio.run_process([sys.executable, "-c", _STAFF], cwd=tmp_path)
    with _served("shop.asgi:application", tmp_path, database) as browser:
        async with browser:
            for name, status in (("max", httpx.codes.TEMPORARY_REDIRECT), ("zoe", httpx.codes.OK)):
                sent = await browser.get("/inbox/events")
                assert sent.headers["location"] == "/admin/login/?next=/inbox/events"
                await browser.get(sent.headers["location"])
                form = {"username": name, "password": "secret", "next": "/inbox/events"}
                form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
                await browser.post("/admin/login/", data=form)
                assert (await browser.get("/inbox/events")).status_code == status
            await _shows_the_school(browser)
    assert await _closed(database)
