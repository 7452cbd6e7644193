"""Load settings that must be refused, and list their problems.

(problem,) = problems(path)
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from inboxd.errors import SettingsError
from inboxd.settings import (
    load,
)


def problems(path: Path | None, environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(path, environ or {}, docker_secrets=Path("/nonexistent"))
    return str(caught.value).splitlines()
