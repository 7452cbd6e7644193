"""The page's section on Django is a project whose own tests pass, over psycopg 3 and psycopg2."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Database
from tests.support.django_project import database as settings_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/frameworks.md").read_text().partition("\n## Django\n")[2]
# Other settings of the project; Django uses psycopg2 if psycopg 3 is missing.
REST = """
import sys
if {hidden!r}:
    sys.modules["psycopg"] = None
SECRET_KEY = "for tests"
USE_TZ = True
DATABASES = {{"default": {database!r}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_project_of_the_page_passes_its_tests(
    database: Database, tmp_path: Path, driver: str
) -> None:
    text = PAGE.partition("\n## ")[0]
    pattern = r"`((?:shop|orders)/\w+\.py)`[^`]*(?:`[^`\n]+`[^`]*)*\n\n```python\n(.*?)^```$"
    files = dict(re.findall(pattern, text, re.DOTALL | re.MULTILINE))
    assert sorted(files) == [
        *("orders/models.py", "orders/services.py", "orders/tests.py", "shop/settings.py")
    ]
    for package in ("shop", "orders"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    files["shop/settings.py"] += REST.format(
        hidden=driver == "psycopg2", database=settings_of(database.dsn)
    )
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    ran = subprocess.run(
        [sys.executable, "-m", "django", "test", "--verbosity=2"],
        cwd=tmp_path,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "shop.settings", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Ran 2 tests" in ran.stderr
