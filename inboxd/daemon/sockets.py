"""Listening sockets by name: inherited, or bound by this process.

The protocol of socket activation (`sd_listen_fds`), by which systemd and the supervisor hand
sockets over. An inherited socket's file and variables do not reach programs that this process
starts. SO_REUSEPORT is not used: it gives each process a queue of its own, and the kernel resets
the waiting connections of a process that leaves; a shared queue outlives each. Stream sockets only.
"""

import fcntl
import os
import socket
import stat
from collections.abc import Mapping, MutableMapping, Sequence
from typing import NamedTuple

from inboxd.errors import SettingsError

# The settings' section that is served on a socket of this name: `[http]`, `[inbound.http]`,
# `[admin]`.
HTTP = "http"
INBOUND = "inbound"
ADMIN = "admin"
NAMES = (HTTP, INBOUND, ADMIN)
# Connections that may wait while no process accepts, for example during a restart; equals the
# kernel's default (net.core.somaxconn).
BACKLOG = 4096

# Number of the first inherited file: systemd's SD_LISTEN_FDS_START.
_FIRST = 3
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")

Listeners = Mapping[str, Sequence[socket.socket]]


class ListenAddress(NamedTuple):
    """An address to listen at, and its section in the settings."""

    section: str
    host: str
    port: int


def listen(addresses: Mapping[str, ListenAddress]) -> dict[str, Sequence[socket.socket]]:
    """Inherited ones, or else one that is bound here. Raises SettingsError."""
    found = inherited()
    try:
        _refuse_idle(found, addresses)
        for name in addresses.keys() - found.keys():
            found[name] = [bind(addresses[name])]
    except SettingsError:
        close(found)
        raise
    return found


def _refuse_idle(found: Listeners, addresses: Mapping[str, ListenAddress]) -> None:
    for name in found.keys() - addresses.keys():
        raise SettingsError(
            f"a socket {name!r} is inherited, but this process serves nothing on it: switch it on "
            "in the settings, or take the socket from the unit"
        )


def inherited(
    environ: MutableMapping[str, str] = os.environ, first: int | None = None
) -> dict[str, Sequence[socket.socket]]:
    """A name may have several sockets. Raises SettingsError."""
    pid, count, listed = (environ.pop(variable, "") for variable in _VARIABLES)
    if pid != str(os.getpid()):  # no sockets, or they belong to another process
        return {}
    names = listed.split(":") if listed else []
    if not count.isdecimal() or int(count) != len(names):
        raise SettingsError(
            f"LISTEN_FDS={count} does not fit LISTEN_FDNAMES={listed}: each socket that is handed "
            f"over needs its name, one of {', '.join(NAMES)}"
        )
    found: dict[str, list[socket.socket]] = {}
    try:
        for file, name in enumerate(names, first or _FIRST):
            found.setdefault(name, []).append(_take_over(file, name))
    except SettingsError:
        close(found)
        raise
    return {name: tuple(listeners) for name, listeners in found.items()}


def bind(address: ListenAddress) -> socket.socket:
    """Listen at an address. Raises SettingsError."""
    section, host, port = address
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {section}.host {host!r}, {section}.port {port}: {error.strerror}; "
            f"set {section}.port to a free one (0 takes any), or {section}.enabled to false"
        ) from error


def hand_over(listeners: Listeners) -> dict[str, str]:
    """Only for a process that executes the next program immediately: its other files are lost."""
    named = [(name, each.fileno()) for name, its in listeners.items() for each in its]
    # First to unused numbers: a target number may be in use by a file that is still to be moved.
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _FIRST + len(named)) for _, file in named]
    for target, file in enumerate(moved, _FIRST):
        os.dup2(file, target)
    if not named:
        return {}
    values = (str(os.getpid()), str(len(named)), ":".join(name for name, _ in named))
    return dict(zip(_VARIABLES, values, strict=True))


def url(listener: socket.socket) -> str:
    """The address of a socket for a log line: `http://127.0.0.1:8797`, or `unix:` and a path."""
    name = listener.getsockname()
    if isinstance(name, tuple):
        host, port = name[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    return f"unix:{name}"


def close(listeners: Listeners) -> None:
    for sockets in listeners.values():
        for each in sockets:
            each.close()


def _take_over(file: int, name: str) -> socket.socket:
    if name not in NAMES:
        raise SettingsError(
            f"a socket {name!r} is inherited, which is not one of {', '.join(NAMES)}: give the "
            "socket unit FileDescriptorName= with one of these"
        )
    try:
        is_socket = stat.S_ISSOCK(os.fstat(file).st_mode)
    except OSError:
        is_socket = False
    if is_socket:
        listener = socket.socket(fileno=file)
        if listener.type == socket.SOCK_STREAM and _listens(listener):
            listener.set_inheritable(False)
            return listener
        listener.close()
    raise SettingsError(
        f"file {file}, inherited as the socket {name!r}, is not a listening stream socket: hand it "
        "over by ListenStream= of a socket unit, with Accept=no"
    )


def _listens(listener: socket.socket) -> bool:
    try:
        return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:  # the system cannot find out: trust the supervisor
        return True
