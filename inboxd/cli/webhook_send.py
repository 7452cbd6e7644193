"""`inboxd webhooks send`, `inboxd webhooks openapi`: webhook commands that need no database.

A sample is signed with the first key that is valid now. A secret in the request itself, such as a
bearer token, is sent to another machine only with `--with-secret`, and never unencrypted over a
public network.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from inboxd.cli.exits import Exit
from inboxd.cli.options import Asking, Config, load_settings
from inboxd.cli.output import Document, Fields, Part, print_json
from inboxd.errors import UnknownName, UsageError
from inboxd.model.spelling import did_you_mean

if TYPE_CHECKING:
    from inboxd.cli.posting import Posted
    from inboxd.settings import Settings, WebhookSource


def source_names(context: typer.Context, incomplete: str) -> list[str]:
    from inboxd.settings import read

    config = context.params.get("config") or context.find_root().params.get("config")
    try:
        names = read(config).settings.inbound.webhooks
    except Exception:  # noqa: BLE001 - an error would garble the shell's prompt
        return []
    return sorted(name for name in names if name.startswith(incomplete))


SourceOption = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="NAME",
        help="The source's name in the settings.",
        show_default=False,
        autocompletion=source_names,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The URL. Default: the source at the settings' receiver."),
]
Seconds = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.1, max=600, help="Time limit."),
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME:VALUE", help="Another header; repeatable."),
]
WithSecret = Annotated[
    bool,
    typer.Option(
        "--with-secret",
        help="Send the request to that URL even if it contains the secret, such as a bearer token.",
    ),
]


def send(
    source: SourceOption,
    file: Annotated[
        str,
        typer.Option("--file", metavar="FILE|-", help="The body; -: standard input."),
    ],
    *,
    url: Url = None,
    id: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The message's id. Default: a new one.")
    ] = None,
    header: Headers = None,
    with_secret: WithSecret = False,
    timeout: Seconds = 30,
    given: Asking,
) -> None:
    """Sign a sample as the source's sender does, send it, and print the answer.

    The exit code is 0 for a 2xx, 1 for another answer, and 69 without an answer. The command needs
    no database.
    """
    from inboxd.cli.posting import parts_of, post
    from inboxd.inbound.openapi import MEDIA_TYPES
    from inboxd.settings.values import is_loopback
    from inboxd.signatures.sources import secret_header, verifier_for

    settings = given.settings
    one = source_of(settings, source)
    where = url or address_of(settings, source)
    more = dict(map(_read_header, header or ()))
    body = _read(file)
    verifier = verifier_for(source, one)
    signed = verifier.sign(body, id or f"msg_{uuid4().hex}", time.time())
    if url is not None and not is_loopback(parts_of(url).hostname or ""):
        refuse_to_reveal(source, secret_header(verifier, signed), url, with_secret=with_secret)
    headers = {"content-type": MEDIA_TYPES[one.body], **signed, **more}
    print_answer(given, post(where, body, headers, timeout), {"source": source})


def openapi(config: Config = None) -> None:
    """Print the OpenAPI document of the receiver: URLs, signatures, answers."""
    from importlib.metadata import version

    from inboxd.inbound.openapi import openapi as document

    inbound = load_settings(config).inbound
    made = document(inbound.http, inbound.webhooks, version("inboxd"))
    print_json(made, indent=True)


def source_of(settings: "Settings", name: str) -> "WebhookSource":
    sources = settings.inbound.webhooks
    if name not in sources:
        hint = did_you_mean(name, list(sources))
        raise UnknownName(
            f"the settings have no source {name!r}{hint}; add [inbound.webhooks.{name}], or give "
            "the settings' file with -c"
        )
    return sources[name]


def address_of(settings: "Settings", name: str) -> str:
    from inboxd.inbound.openapi import base_url

    http = settings.inbound.http
    if http.port == 0:
        raise UsageError("inbound.http.port is 0, any free port: give the URL with --url.")
    return f"{base_url(http)}/in/{name}"


def refuse_to_reveal(source: str, header: str | None, url: str, *, with_secret: bool) -> None:
    """Raises UsageError. header: it contains the secret; None: no header does."""
    from inboxd.cli.posting import parts_of
    from inboxd.settings.values import is_private_url

    if header is None:
        return
    host = parts_of(url).hostname
    if not with_secret:
        raise UsageError(
            f"requests of {source} contain its secret, in the header {header}: nothing was "
            f"sent, so that {host} does not learn it. --with-secret sends it nevertheless; better, "
            "give that receiver its own secret."
        )
    if not is_private_url(url):
        raise UsageError(
            f"the secret of {source} would be sent unencrypted to {host}: nothing was sent; use "
            "https://…"
        )


def print_answer(given: Asking, answer: "Posted", more: Mapping[str, Any]) -> None:
    """Print the answer; exit with 1 if its status is not a success."""
    value = _value(answer.body)
    document = {**more, "url": answer.url, "status": answer.status, "answer": value}
    fields = {
        **more,
        "url": answer.url,
        "status": f"{answer.status} {answer.reason}".strip(),
        "retry after": answer.headers.get("retry-after"),
    }
    told: list[Part] = [Fields(fields)]
    if value not in (None, ""):
        told.append(value if isinstance(value, str) else Document("answer", value))
    given.print(document, told)
    if not answer.is_success:
        raise typer.Exit(Exit.PROBLEMS)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{file}: cannot read the body ({error.strerror}); check --file."
        ) from None


def _read_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"{text!r} is not a valid header: write --header 'NAME: VALUE'.")
    return name.strip().lower(), value.strip()


def _value(body: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")
