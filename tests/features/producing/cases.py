"""Cases of files that are imported."""

from typing import Literal

from inboxd.features.producing import store
from inboxd.store.session import Session
from tests.plans.filling import Known
from tests.plans.statements.case import Case


def _import(kind: Literal["event", "command"]) -> Case:
    """Import one page of a file."""

    async def case(session: Session, _: Known) -> None:
        file = store.ImportedFile(kind, "a file")
        await store.so_far(session, file)
        lines = [(n, b'{"type": "few"}') for n in range(1, 11)]
        page = store.LinePage(0, 10, lines, left_out=0, last=False)
        await store.write(session, file, page, skip=True)

    return case


PRODUCER: dict[str, tuple[Case, tuple[str, ...]]] = {
    "emit_lines": (_import("event"), ()),
    "send_lines": (_import("command"), ()),
}
