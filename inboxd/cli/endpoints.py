"""`inboxd endpoints`: who gets webhooks.

Promises: a secret is shown once, by the command that made it. Known limit: what the settings say of
an endpoint is changed there alone.
*See:* `deliveries.py`, what was sent to them.
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from inboxd.cli import columns
from inboxd.cli.deliveries import Name, deliveries, resend, send
from inboxd.cli.groups import CommandGroup, Options
from inboxd.cli.options import Acting, Asking, Careful, Looking, examples
from inboxd.cli.output import Fields, TableColumn, remark
from inboxd.errors import UsageError
from inboxd.model import duration
from inboxd.model.endpoints import endpoint_document, endpoint_state
from inboxd.model.wording import span

if TYPE_CHECKING:
    from inboxd.settings import Settings

NO_BOUND = "none"

app = CommandGroup(no_args_is_help=True, help="Look at the endpoints of webhooks, and manage them.")
app.command(
    epilog=examples(
        "inboxd endpoints deliveries acme --status failed --since 2h",
        "inboxd endpoints deliveries acme --json",
    )
)(deliveries)
app.command(
    epilog=examples(
        "inboxd endpoints resend acme 4711 4712",
        "inboxd endpoints resend acme --failed --since 2h --dry-run",
    )
)(resend)
app.command(
    epilog=examples(
        "inboxd endpoints send acme",
        """inboxd endpoints send acme user.created '{"user_id": 7}'""",
    )
)(send)

Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help='A type that it gets; "user.*": all that begin so; "*": all. Several may be given.',
    ),
]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE|-",
        help="A file with the secret (whsec_ and base64), -: standard input; without, one is made.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class EndpointBounds(Options):
    """How an endpoint is served."""

    ordered: Annotated[
        bool | None,
        typer.Option(
            "--ordered/--unordered",
            help="What has one ordering key is delivered in order.",
            show_default=False,
        ),
    ] = None
    events: Annotated[
        bool | None,
        typer.Option(
            "--events/--no-events",
            help="Events that are emitted reach it, too, where its types match.",
            show_default=False,
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(metavar="RATE", help=f"At most so many: 10/s, 600/m; {NO_BOUND}: no bound."),
    ] = None
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="At most N at once, over all workers; 0: no bound."),
    ] = None
    disable_after: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Disable it when it has failed for so long, such as 5d."),
    ] = None

    def given(self) -> dict[str, Any]:
        """What was given, parsed. Raises UsageError."""
        read: dict[str, Any] = {}
        if self.ordered is not None:
            read["ordered"] = self.ordered
        if self.events is not None:
            read["events"] = self.events
        if self.rate is not None:
            read["rate"] = None if self.rate == NO_BOUND else _rate(self.rate)
        if self.concurrency is not None:
            read["concurrency"] = self.concurrency or None
        if self.disable_after is not None:
            read["disable_after"] = _positive(self.disable_after)
        return read


def _rate(text: str) -> str:
    from inboxd.settings.values import format_rate, parse_rate

    try:
        return format_rate(parse_rate(text))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _positive(text: str) -> timedelta:
    if not (found := duration.parse(text)):
        raise UsageError("--disable-after must be longer than 0s.")
    return found


def _for(row: Mapping[str, Any]) -> str | None:
    since = row["disabled_at"] or row["failing_since"]
    return None if since is None else span((datetime.now(UTC) - since).total_seconds())


LIST = (
    TableColumn("endpoint", "name", cut="left"),
    TableColumn("state", endpoint_state),
    TableColumn("for", _for, legend="since when it is disabled or fails"),
    TableColumn("types", lambda row: ", ".join(row["types"]), cut="right"),
    TableColumn("url", cut="right"),
    TableColumn("why", lambda row: row["disabled_reason"] or _failing(row), cut="right"),
    TableColumn("tenant", cut="right", extra=True),
    TableColumn("managed by", "managed_by", extra=True),
)


def _failing(row: Mapping[str, Any]) -> str | None:
    return None if row["failing_since"] is None else row["last_failure"]


@app.command(
    "list", epilog=examples("inboxd endpoints list", "inboxd endpoints list --failing --json")
)
def list_(
    *,
    failing: Annotated[
        bool, typer.Option("--failing", help="Only those that fail or are disabled.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those of this tenant.")
    ] = None,
    given: Looking,
) -> None:
    """List endpoints: which types they get, and whether they take them."""
    from inboxd.store import endpoints

    rows = [
        dict(row)
        for row in given.ask(endpoints.listed)
        if (tenant is None or row["tenant"] == tenant)
        and not (failing and endpoint_state(row) == "ok")
    ]
    given.print({"endpoints": [*map(endpoint_document, rows)]}, [columns.table(LIST, rows)])


@app.command(
    "show", epilog=examples("inboxd endpoints show acme", "inboxd endpoints show acme --json")
)
def show(name: Name, given: Asking) -> None:
    """Show one endpoint: what it gets, how, and how that has gone. Never its secrets."""
    from inboxd.operations import one_endpoint

    row: dict[str, Any] = dict(given.ask(lambda session: one_endpoint(session, name)))
    given.print(endpoint_document(row), [Fields(_fields(row), f"Endpoint {name}")])


def _fields(row: Mapping[str, Any]) -> dict[str, Any]:
    answer = row["last_failure_at"] and f"{row['last_failure']}"
    return {
        "state": endpoint_state(row),
        "url": row["url"],
        "types": ", ".join(row["types"]),
        "tenant": row["tenant"],
        "in order": "by ordering key" if row["ordered"] else None,
        "events": "what is emitted, too" if row["events"] else None,
        "rate": row["rate"],
        "at once": row["concurrency"],
        "disabled": row["disabled_at"],
        "disabled because": row["disabled_reason"],
        "failing since": row["failing_since"],
        "disabled after": duration.write(row["disable_after"]),
        "last success": row["last_success_at"],
        "last failure": row["last_failure_at"],
        "it was": answer,
        "secrets that sign": row["secrets"],
        "newest of": row["secret_created_at"],
        "oldest until": row["secret_expires_at"],
        "managed by": row["managed_by"],
        "in no settings since": row["undeclared_at"],
        "changed": row["changed_at"],
    }


@app.command(
    "add",
    epilog=examples(
        "inboxd endpoints add acme https://acme.example/hooks --type 'user.*' --tenant acme",
        "inboxd endpoints add crm https://crm.example/in --type '*' --ordered --rate 10/s",
        "inboxd endpoints add bi https://bi.example/facts --type 'order.*' --events",
    ),
)
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new one.", show_default=False)],
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to post.", show_default=False)],
    *,
    type: Types = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="TEXT", help="It gets only what is sent for this tenant.")
    ] = None,
    secret_file: SecretFile = None,
    bounds: EndpointBounds,
    given: Acting,
) -> None:
    """Add an endpoint. Its secret is shown now, and never again."""
    from inboxd.model.endpoints import made_secret
    from inboxd.operations import add_endpoint
    from inboxd.store.endpoints import NewEndpoint

    if not type:
        raise UsageError("which types does it get? Give --type, such as --type 'user.*'.")
    own = _read_secret(secret_file)
    new = NewEndpoint(
        name=name,
        url=url,
        types=type,
        secret=own or made_secret(),
        tenant=tenant,
        **{each: value for each, value in bounds.given().items() if value is not None},
    )
    row = dict(given.do(add_endpoint, new))
    _remark_on(url, given.settings)
    _tell_secret(given, row, f"Endpoint {name} is added.", None if own else new.secret)


@app.command(
    "change",
    epilog=examples(
        "inboxd endpoints change acme --url https://acme.example/new",
        "inboxd endpoints change acme --rate none --reason 'they can take it'",
    ),
)
def change(
    name: Name,
    *,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Where to post.")] = None,
    type: Types = None,
    bounds: EndpointBounds,
    given: Acting,
) -> None:
    """Change an endpoint: its URL, its types (all of them are given anew), its bounds."""
    from inboxd.operations import change_endpoint

    changes = bounds.given()
    if url is not None:
        changes["url"] = url
    if type:
        changes["types"] = type
    row = dict(given.do(change_endpoint, name, changes))
    if url is not None:
        _remark_on(url, given.settings)
    given.tell(endpoint_document(row), f"Endpoint {name} is changed: {', '.join(sorted(changes))}.")


def _remark_on(url: str, settings: "Settings") -> None:
    """Say of an address that nothing is sent there, as far as these settings tell."""
    from inboxd.outbound.addresses import Allowed

    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http" and settings.outbound.webhooks.require_https:
        remark("inboxd: it is http: nothing is sent there, by outbound.webhooks.require_https")
    with suppress(ValueError):  # a name, which may lead anywhere
        ip_address(host)
        if not Allowed(settings.outbound.webhooks.allow).permits(host):
            remark(
                f"inboxd: {host} is not of the public internet: nothing is sent there unless "
                "outbound.webhooks.allow, in the settings of the workers, has its range"
            )


@app.command("remove", epilog=examples("inboxd endpoints remove acme --yes"))
def remove(name: Name, given: Careful) -> None:
    """Remove an endpoint. What waits for it stays: cancel or dismiss that."""
    from inboxd.operations import one_endpoint, remove_endpoint

    def shown() -> bool:
        row = dict(given.ask(lambda session: one_endpoint(session, name)))
        given.print(endpoint_document(row), [columns.table(LIST, [row])])
        return True

    if given.agreed(shown, f"Remove the endpoint {name}?"):
        row = dict(given.do(remove_endpoint, name))
        given.tell(endpoint_document(row), f"Endpoint {name} is removed.")


@app.command("enable", epilog=examples("inboxd endpoints enable acme --reason 'they fixed it'"))
def enable(name: Name, given: Acting) -> None:
    """Enable an endpoint again: what waits for it is delivered."""
    from inboxd.operations import enable_endpoint

    row = dict(given.do(enable_endpoint, name))
    given.tell(endpoint_document(row), f"Endpoint {name} is enabled.")


@app.command("disable", epilog=examples("inboxd endpoints disable acme --reason 'they left'"))
def disable(name: Name, given: Acting) -> None:
    """Disable an endpoint: nothing new is written for it, and what waits stays."""
    from inboxd.operations import disable_endpoint

    row = dict(given.do(disable_endpoint, name))
    given.tell(endpoint_document(row), f"Endpoint {name} is disabled.")


@app.command(
    "rotate",
    epilog=examples("inboxd endpoints rotate acme", "inboxd endpoints rotate acme --keep 0s"),
)
def rotate(
    name: Name,
    *,
    keep: Annotated[
        str, typer.Option(metavar="TIME", help="How long the old secret signs too; 0s: no more.")
    ] = "24h",
    secret_file: SecretFile = None,
    given: Acting,
) -> None:
    """Give an endpoint a new secret. It is shown now, and never again."""
    from inboxd.operations import rotate_endpoint

    own = _read_secret(secret_file)
    secret = given.do(rotate_endpoint, name, own, duration.parse(keep))
    row = {"name": name, "keep": keep}
    old = f"signs for {keep} still" if duration.parse(keep) else "signs no more"
    told = f"Endpoint {name} has a new secret; the old one {old}."
    _tell_secret(given, row, told, None if own else secret)


def _read_secret(file: Path | None) -> str | None:
    if file is None:
        return None
    if str(file) == "-":
        return sys.stdin.read().strip()
    from inboxd.settings.secrets import read_secret

    return read_secret(file).strip()


def _tell_secret(given: Acting, row: Mapping[str, Any], told: str, secret: str | None) -> None:
    """Print what was done, with the secret if it was made here."""
    document = dict(row) if "disable_after" not in row else endpoint_document(row)
    if secret is None:
        given.tell(document, told)
    else:
        given.tell({**document, "secret": secret}, told, f"Its secret, shown this once: {secret}")
