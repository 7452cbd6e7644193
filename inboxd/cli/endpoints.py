"""`inboxd endpoints`: the customers' URLs that get webhooks.

A secret is shown once, by the command that made it; the settings alone change what they declare.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.deliveries import Name, deliveries, resend, send
from inboxd.cli.groups import CommandGroup, Options
from inboxd.cli.options import Acting, Asking, Looking, Previewed, examples
from inboxd.cli.output import Fields, TableColumn, remark
from inboxd.errors import UsageError
from inboxd.model import duration
from inboxd.model.endpoints import endpoint_document, endpoint_state
from inboxd.model.wording import span

if TYPE_CHECKING:
    from inboxd.settings import Settings

NO_BOUND = "none"

app = CommandGroup(no_args_is_help=True, help="Show and manage the endpoints that get webhooks.")
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
        help='A type that the endpoint gets; "user.*": all types with this beginning; "*": all. '
        "Repeatable.",
    ),
]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE|-",
        help="File with the secret (whsec_ and base64); -: standard input. Default: a new secret.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class EndpointBounds(Options):
    ordered: Annotated[
        bool | None,
        typer.Option(
            "--ordered/--unordered",
            help="Deliver webhooks of one ordering key in order.",
            show_default=False,
        ),
    ] = None
    events: Annotated[
        bool | None,
        typer.Option(
            "--events/--no-events",
            help="Also deliver emitted events of its types.",
            show_default=False,
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE", help=f"Maximum rate of deliveries: 10/s, 600/m; {NO_BOUND}: no limit."
        ),
    ] = None
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="At most N at once, over all workers; 0: no limit."),
    ] = None
    disable_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Disable the endpoint after it has failed for this time: 5d."
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        from inboxd.operations.endpoints import read_disable_after, read_rate

        read: dict[str, Any] = {}
        if self.ordered is not None:
            read["ordered"] = self.ordered
        if self.events is not None:
            read["events"] = self.events
        if self.rate is not None:
            read["rate"] = None if self.rate == NO_BOUND else read_rate(self.rate)
        if self.concurrency is not None:
            read["concurrency"] = self.concurrency or None
        if self.disable_after is not None:
            read["disable_after"] = read_disable_after(self.disable_after)
        return read


def _for(row: Mapping[str, Any]) -> str | None:
    since = row["disabled_at"] or row["failing_since"]
    return None if since is None else span((datetime.now(UTC) - since).total_seconds())


LIST = (
    TableColumn("endpoint", "name", cut="left"),
    TableColumn("state", endpoint_state),
    TableColumn("for", _for, legend="how long it has been disabled or failing"),
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
        bool, typer.Option("--failing", help="Only failing and disabled endpoints.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only endpoints of this tenant.")
    ] = None,
    given: Looking,
) -> None:
    """List endpoints: their types, their states, and errors."""
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
    """Show one endpoint: its types, limits, state and errors; never its secrets."""
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
        "order": "by ordering key" if row["ordered"] else None,
        "events": "emitted events too" if row["events"] else None,
        "rate limit": row["rate"],
        "concurrency limit": row["concurrency"],
        "disabled": row["disabled_at"],
        "disable reason": row["disabled_reason"],
        "failing since": row["failing_since"],
        "disable after": duration.write(row["disable_after"]),
        "last success": row["last_success_at"],
        "last failure": row["last_failure_at"],
        "last error": answer,
        "active secrets": row["secrets"],
        "newest secret": row["secret_created_at"],
        "oldest expires": row["secret_expires_at"],
        "managed by": row["managed_by"],
        "removed from settings": row["undeclared_at"],
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
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The new endpoint's name.", show_default=False)
    ],
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="The URL that webhooks are posted to.", show_default=False
        ),
    ],
    *,
    type: Types = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The only tenant whose webhooks the endpoint gets."),
    ] = None,
    secret_file: SecretFile = None,
    bounds: EndpointBounds,
    given: Acting,
) -> None:
    """Add an endpoint. Its secret is shown only now."""
    from inboxd.model.endpoints import made_secret
    from inboxd.operations import add_endpoint
    from inboxd.store.endpoints import NewEndpoint

    if not type:
        raise UsageError("the endpoint has no types: give --type, such as --type 'user.*'.")
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
    _tell_secret(given, row, f"Endpoint {name} added.", None if own else new.secret)


@app.command(
    "change",
    epilog=examples(
        "inboxd endpoints change acme --url https://acme.example/new",
        "inboxd endpoints change acme --rate none --reason 'their server is faster now'",
    ),
)
def change(
    name: Name,
    *,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The URL that webhooks are posted to.")
    ] = None,
    type: Types = None,
    bounds: EndpointBounds,
    given: Acting,
) -> None:
    """Change an endpoint: its URL, its types (--type replaces all of them), its limits."""
    from inboxd.operations import change_endpoint

    changes = bounds.given()
    if url is not None:
        changes["url"] = url
    if type:
        changes["types"] = type
    row = dict(given.do(change_endpoint, name, changes))
    if url is not None:
        _remark_on(url, given.settings)
    given.tell(endpoint_document(row), f"Endpoint {name} changed: {', '.join(sorted(changes))}.")


def _remark_on(url: str, settings: "Settings") -> None:
    from inboxd.operations.endpoints import url_remarks

    for each in url_remarks(settings, url):
        remark(f"inboxd: {each}")


@app.command("remove", epilog=examples("inboxd endpoints remove acme --yes"))
def remove(name: Name, given: Previewed) -> None:
    """Remove an endpoint. Its waiting deliveries stay: cancel or dismiss them."""
    from inboxd.operations import one_endpoint, remove_endpoint

    def shown() -> bool:
        row = dict(given.ask(lambda session: one_endpoint(session, name)))
        given.print(endpoint_document(row), [columns.table(LIST, [row])])
        return True

    if given.confirmed(shown, f"Remove the endpoint {name}?"):
        row = dict(given.do(remove_endpoint, name))
        given.tell(endpoint_document(row), f"Endpoint {name} removed.")


@app.command("enable", epilog=examples("inboxd endpoints enable acme --reason 'they fixed it'"))
def enable(name: Name, given: Acting) -> None:
    """Enable an endpoint again: workers send its waiting deliveries."""
    from inboxd.operations import enable_endpoint

    row = dict(given.do(enable_endpoint, name))
    given.tell(endpoint_document(row), f"Endpoint {name} enabled.")


@app.command("disable", epilog=examples("inboxd endpoints disable acme --reason 'they left'"))
def disable(name: Name, given: Acting) -> None:
    """Disable an endpoint: it gets no new deliveries, and its waiting deliveries stay."""
    from inboxd.operations import disable_endpoint

    row = dict(given.do(disable_endpoint, name))
    given.tell(endpoint_document(row), f"Endpoint {name} disabled.")


@app.command(
    "rotate",
    epilog=examples("inboxd endpoints rotate acme", "inboxd endpoints rotate acme --keep 0s"),
)
def rotate(
    name: Name,
    *,
    keep: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Time for which the old secret also signs; 0s: not at all."
        ),
    ] = "24h",
    secret_file: SecretFile = None,
    given: Acting,
) -> None:
    """Give an endpoint a new secret. It is shown only now."""
    from inboxd.operations import rotate_endpoint

    own = _read_secret(secret_file)
    secret = given.do(rotate_endpoint, name, own, duration.parse(keep))
    row = {"name": name, "keep": keep}
    old = f"still signs for {keep}" if duration.parse(keep) else "no longer signs"
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
    document = dict(row) if "disable_after" not in row else endpoint_document(row)
    if secret is None:
        given.tell(document, told)
    else:
        given.tell({**document, "secret": secret}, told, f"The secret, shown only now: {secret}")
