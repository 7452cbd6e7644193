"""Who owns which folder, when many processes start at the same moment."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from inboxd.inbound.spool.folder import Owned, own
from tests.support.waiting import patient

STARTING = 8


def test_each_of_many_that_start_at_once_has_a_folder(tmp_path: Path) -> None:
    """One may take what another has just made, before that one has locked it."""
    with ThreadPoolExecutor(STARTING) as threads:
        for number in range(40):
            path = tmp_path / str(number)
            at_once = threading.Barrier(STARTING)

            def start(path: Path = path, at_once: threading.Barrier = at_once) -> Owned:
                at_once.wait(patient())
                return own(path)

            started = [threads.submit(start) for _ in range(STARTING)]
            owned = [each.result(patient()) for each in started]
            assert len({each.folder for each in owned}) == STARTING
            for each in owned:
                each.release()
