"""A spool in a real folder, as a receiver leaves it: `spool(tmp_path, receipt()).release()`."""

from datetime import timedelta
from pathlib import Path

from inboxd.daemon.hosted_spool import HostedSpool
from inboxd.inbound.spool.boot_ids import Stamps
from inboxd.inbound.spool.encoding import encode
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import Owned, own
from inboxd.inbound.spool.log import Appender, set_apart
from inboxd.inbound.spool.markers import Gates
from inboxd.model.receipt import Receipt
from tests.support.receipts import receipt


def spool(path: Path, *page: Receipt) -> Owned:
    """Spool receipts in a new folder, which the caller owns until it is released."""
    owned = own(path)
    log = Appender(owned.folder, SystemFiles(), quota=1 << 30, segment_bytes=1 << 20)
    gates, stamps = Gates(path), Stamps(path)
    for source in {each.source for each in page}:
        gates.mark(source)
    if page:
        log.append([encode(stamps.make(), each) for each in page])
    return owned


def leave_apart(folder: Path, path: Path, given: Receipt, reason: str, number: int = 42) -> str:
    """Set a receipt apart in a folder, as the drain does; return its name."""
    name = f"{number:020d}"
    set_apart(folder, SystemFiles(), name, encode(Stamps(path).make(), given), reason)
    return name


# The spool of `host_spool`: its host, the folder of a dead process, the name of its item set apart.
HOST, GONE, APART = "node", "0" * 32, f"{42:020d}"


def host_spool(path: Path) -> HostedSpool:
    """A spool for screens, of a dead process: one waiting receipt, and one in a file of its own."""
    (path / "spools" / GONE).mkdir(parents=True)
    owned = spool(path, receipt())
    leave_apart(owned.folder, path, receipt(), "the database refuses it")
    owned.release()
    return HostedSpool(path, timedelta(days=30), HOST)
