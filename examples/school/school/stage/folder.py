"""The folder of a demo: gone when all went well, kept and named when something was wrong."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class DemoFolder:
    """Where a demo's processes write. wanted: it is to stay, so that somebody can say why."""

    path: Path
    wanted: bool = False
    others: list[Path] = field(default_factory=list)

    @property
    def logs(self) -> list[Path]:
        """What the processes wrote."""
        return [log for each in (self.path, *self.others) for log in sorted(each.glob("*.log"))]


@contextmanager
def demo_folder(tell: Callable[[str], None]) -> Iterator[DemoFolder]:
    """A folder for the block. It stays, with `others`, if it is wanted or the block fails.

    Ctrl-C is no failure.
    """
    made = DemoFolder(Path(tempfile.mkdtemp(prefix="inboxd-demo-")))
    try:
        yield made
    except KeyboardInterrupt:
        raise
    except BaseException:
        made.wanted = True
        raise
    finally:
        if made.wanted:
            tell(f"Kept, since something was wrong: {made.path}. Its logs:")
            for log in made.logs:
                tell(f"  {log}")
        else:
            for each in (made.path, *made.others):
                shutil.rmtree(each, ignore_errors=True)
