"""nginx, of the tests' own: a web server before what they serve, with the servers that they write.

Promises: it needs no privileges, and keeps its files in a folder of its own. Debian:
`apt install nginx-light`.
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
    """It runs meanwhile. port: at which one of the servers listens."""
    program = installed("nginx")
    assert program is not None, "nginx is not installed: apt install nginx-light"
    with shared_folder() as folder:
        settings = folder / "nginx.conf"
        settings.write_text(_CONFIG.format(folder=folder, servers=servers))
        command = [program, "-p", str(folder), "-e", "stderr", "-c", str(settings)]
        with guarded(command, port, folder / "log"):
            yield
