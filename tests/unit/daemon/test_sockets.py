"""Listening sockets: inherited by name, or bound; errors name the sockets that do not fit."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from inboxd.daemon.sockets import HTTP, INBOUND, ListenAddress, bind, close, inherited, listen, url
from inboxd.errors import SettingsError


@pytest.fixture
def given() -> Iterator[int]:
    """The first of three file numbers that only the test uses, to hand sockets over."""
    first = 500  # far above the numbers that the system gives
    for file in range(first, first + 3):
        os.dup2(0, file)
    yield first
    for file in range(first, first + 3):
        with suppress(OSError):  # a socket was made from it, and is closed
            os.close(file)


def hand_over(first: int, *listeners: socket.socket) -> None:
    for file, listener in enumerate(listeners, first):
        os.dup2(listener.fileno(), file)


def environment(count: object, names: str, pid: int | None = None) -> dict[str, str]:
    given = {"LISTEN_PID": str(pid or os.getpid()), "LISTEN_FDS": str(count)}
    return {**given, "LISTEN_FDNAMES": names}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_sockets_are_taken_over_by_name(given: int, listener: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as second:
        hand_over(given, listener, second, listener)
    environ = environment(3, "http:inbound:http")
    found = inherited(environ, given)
    assert {name: [each.fileno() for each in its] for name, its in found.items()} == {
        HTTP: [given, given + 2],
        INBOUND: [given + 1],
    }
    assert not any(each.get_inheritable() for its in found.values() for each in its)
    assert environ == {}, "child processes do not take the sockets for their own"
    close(found)


def test_an_inherited_socket_accepts_earlier_connections(
    given: int, listener: socket.socket
) -> None:
    hand_over(given, listener)
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(b"before")
        found = inherited(environment(1, "http"), given)
        connection, _ = found[HTTP][0].accept()
        with connection:
            assert connection.recv(6) == b"before"
    close(found)


@pytest.mark.parametrize("environ", [{}, environment(1, "http", pid=1)])
def test_sockets_for_another_process_are_not_taken(environ: dict[str, str]) -> None:
    assert inherited(environ) == {}


@pytest.mark.parametrize(
    ("count", "names", "message"),
    [
        (2, "http", r"LISTEN_FDS=2 does not fit LISTEN_FDNAMES=http.*http, inbound"),
        ("many", "http", "LISTEN_FDS=many does not fit"),
        (1, "", "LISTEN_FDS=1 does not fit LISTEN_FDNAMES=:"),
        (1, "unknown", "'unknown' is inherited, which is not one of http, .*FileDescriptorName="),
        (1, "http", r"file \d+, inherited as the socket 'http', is not a listening"),
    ],
)
def test_a_socket_that_does_not_fit_is_one_clear_line(
    given: int, count: object, names: str, message: str
) -> None:
    with pytest.raises(SettingsError, match=message) as failed:
        inherited(environment(count, names), given)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_socket_that_does_not_listen_is_refused(given: int, kind: int) -> None:
    with socket.socket(socket.AF_INET, kind) as idle:
        hand_over(given, idle)
    with pytest.raises(SettingsError, match=r"not a listening stream socket.*Accept=no"):
        inherited(environment(1, "http"), given)


def test_only_missing_sockets_are_bound(
    given: int, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_over(given, listener)
    for variable, value in environment(1, "inbound").items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("inboxd.daemon.sockets._FIRST", given)
    port = listener.getsockname()[1]
    both = {
        HTTP: ListenAddress("http", "127.0.0.1", 0),
        INBOUND: ListenAddress("inbound.http", "127.0.0.1", port),
    }
    found = listen(both)
    assert found[INBOUND][0].getsockname()[1] == port
    assert found[HTTP][0].getsockname()[1] not in (0, port)
    close(found)


def test_a_socket_without_a_server_is_refused(
    given: int, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_over(given, listener)
    for variable, value in environment(1, "inbound").items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("inboxd.daemon.sockets._FIRST", given)
    with pytest.raises(SettingsError, match="'inbound' is inherited, but this process serves"):
        listen({HTTP: ListenAddress("http", "127.0.0.1", 0)})


@pytest.mark.parametrize("section", ["http", "inbound.http"])
def test_address_in_use_is_one_clear_error(listener: socket.socket, section: str) -> None:
    port = listener.getsockname()[1]
    message = rf"{section}\.port {port}: Address already in use.*{section}\.enabled"
    with pytest.raises(SettingsError, match=message):
        bind(ListenAddress(section, "127.0.0.1", port))


def test_a_log_line_has_the_address_of_a_socket(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("s") / "s"
    with socket.create_server(("127.0.0.1", 0)) as v4, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        assert url(v4) == f"http://127.0.0.1:{v4.getsockname()[1]}"
        assert url(unix) == f"unix:{path}"


def test_an_ipv6_address_has_its_brackets() -> None:
    with bind(ListenAddress("http", "::1", 0)) as v6:
        assert url(v6) == f"http://[::1]:{v6.getsockname()[1]}"
