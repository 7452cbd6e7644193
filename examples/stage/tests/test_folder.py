"""A demo that finds something wrong keeps its folder and names its logs; another leaves nothing."""

import tempfile
from pathlib import Path

import pytest

from stage.folder import demo_folder


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return []


def _play(told: list[str], *, code: int = 0, error: BaseException | None = None) -> None:
    with demo_folder(told.append) as folder:
        (folder.path / "registration.log").write_text("500")
        beside = Path(tempfile.mkdtemp())
        (beside / "server.log").write_text("FATAL")
        folder.others.append(beside)
        folder.wanted = code != 0
        if error is not None:
            raise error


def test_one_that_goes_well_leaves_nothing(told: list[str], tmp_path: Path) -> None:
    _play(told)
    with pytest.raises(KeyboardInterrupt):
        _play(told, error=KeyboardInterrupt())
    assert (told, list(tmp_path.iterdir())) == ([], [])


def test_one_that_finds_something_wrong_keeps_it_and_names_its_logs(
    told: list[str], tmp_path: Path
) -> None:
    _play(told, code=1)
    with pytest.raises(ValueError, match="unexpected"):
        _play(told, error=ValueError("unexpected"))
    named = [Path(line.strip()) for line in told if line.endswith(".log")]
    assert [each.name for each in named] == ["registration.log", "server.log"] * 2
    assert [each.read_text() for each in named] == ["500", "FATAL"] * 2
    assert len([line for line in told if line.startswith("Kept")]) == 2
    assert len(list(tmp_path.iterdir())) == 4
