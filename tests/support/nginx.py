"""nginx before a test's server, with the `server` blocks that a test writes.

    with nginx("server { listen 127.0.0.1:8443; ... }", port=8443):
        ...

Promises: it needs no privileges, and keeps its files in its own folder. Debian: `apt install
nginx-light`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.databases import shared_folder
from tests.support.guarded import guarded, installed

_CONFIG = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/proxied;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{servers}
}}
"""


@contextmanager
def nginx(servers: str, port: int) -> Iterator[None]:
    """Run nginx during the block. port: one of the ports that the servers listen on."""
    program = installed("nginx")
    assert program is not None, "nginx is not installed: apt install nginx-light"
    with shared_folder() as folder:
        settings = folder / "nginx.conf"
        settings.write_text(_CONFIG.format(folder=folder, servers=servers))
        command = [program, "-p", str(folder), "-e", "stderr", "-c", str(settings)]
        with guarded(command, port, folder / "log"):
            yield
