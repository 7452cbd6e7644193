"""Ports for what tests start: nobody else is given one meanwhile."""

import socket

from inboxd.embedded import free_port


def held_port() -> socket.socket:
    """A socket that holds a free port of its own, at which a server of the test's may listen.

    A port that is merely free may be another's when its server gets to listen: as many start side
    by side, that comes about. Linux lets a server listen beside this socket, since that one does
    not listen and both allow it (`SO_REUSEADDR`); who asks for a free port does not get it.
    """
    while True:
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", free_port()))
        except OSError:  # somebody was faster
            held.close()
        else:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return held
