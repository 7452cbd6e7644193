"""The folder of a demo: removed after success, kept and named after a fault."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class DemoFolder:
    """The folder that a demo's processes write to; `wanted` keeps it, so that its logs remain."""

    path: Path
    wanted: bool = False
    others: list[Path] = field(default_factory=list)

    @property
    def logs(self) -> list[Path]:
        return [log for each in (self.path, *self.others) for log in sorted(each.glob("*.log"))]


@contextmanager
def demo_folder(report: Callable[[str], None]) -> Iterator[DemoFolder]:
    """Yield a folder; remove it and `others` at the end, unless it is wanted or the block fails.

    Ctrl-C does not count as a failure.
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
            report(f"Kept after a fault: {made.path}. Its logs:")
            for log in made.logs:
                report(f"  {log}")
        else:
            for each in (made.path, *made.others):
                shutil.rmtree(each, ignore_errors=True)
