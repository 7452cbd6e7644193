"""Ports for servers of a test: no other process gets such a port meanwhile.

    with held_port() as held:
        serve(port=held.getsockname()[1])

See `held_port` for the reason.
"""

import socket

from inboxd.embedded import free_port


def held_port() -> socket.socket:
    """A socket that reserves a free port, on which a server of the test may listen.

    Without it another process may take the port before the server listens: with many servers side
    by side, that happens. Linux lets a server listen beside this socket, because this one does not
    listen and both set `SO_REUSEADDR`; a process that asks for a free port does not get it.
    """
    while True:
        held = socket.socket()
        try:
            held.bind(("127.0.0.1", free_port()))
        except OSError:  # another process was faster
            held.close()
        else:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return held
