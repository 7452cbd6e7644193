"""A demo with a fault keeps its folder and names its logs; a demo without one leaves nothing."""

import tempfile
from pathlib import Path

import pytest

from stage.folder import demo_folder


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return []


def _play(lines: list[str], *, code: int = 0, error: BaseException | None = None) -> None:
    with demo_folder(lines.append) as folder:
        (folder.path / "registration.log").write_text("500")
        beside = Path(tempfile.mkdtemp())
        (beside / "server.log").write_text("FATAL")
        folder.others.append(beside)
        folder.wanted = code != 0
        if error is not None:
            raise error


def test_a_demo_without_a_fault_leaves_nothing(lines: list[str], tmp_path: Path) -> None:
    _play(lines)
    with pytest.raises(KeyboardInterrupt):
        _play(lines, error=KeyboardInterrupt())
    assert (lines, list(tmp_path.iterdir())) == ([], [])


def test_a_demo_with_a_fault_keeps_its_folder_and_names_its_logs(
    lines: list[str], tmp_path: Path
) -> None:
    _play(lines, code=1)
    with pytest.raises(ValueError, match="unexpected"):
        _play(lines, error=ValueError("unexpected"))
    named = [Path(line.strip()) for line in lines if line.endswith(".log")]
    assert [each.name for each in named] == ["registration.log", "server.log"] * 2
    assert [each.read_text() for each in named] == ["500", "FATAL"] * 2
    assert len([line for line in lines if line.startswith("Kept")]) == 2
    assert len(list(tmp_path.iterdir())) == 4
