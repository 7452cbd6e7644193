"""The HTTP face: `/metrics`, `/healthz` and `/readyz`, for machines that look after machines.

Owns the three answers of one process. Promises that none holds a payload.
*See:* `admin/server.py`, which serves them, and `daemon/health.py`, which gives the answers on
health.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.server import HealthPart, Page, pages, report
from inboxd.telemetry.metrics import Metrics


class Health(Protocol):
    """The state of the daemon; both answer at once, from memory."""

    def live(self) -> Sequence[HealthPart]:
        """Tell whether the process can still work; if not, it should be restarted."""
        ...

    def ready(self) -> Sequence[HealthPart]:
        """Tell whether it works now; if not, a restart would not help."""
        ...


def application(metrics: Metrics, health: Health) -> Starlette:
    """Build the application alone, without a socket."""

    async def show_metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        names = request.query_params.getlist("name[]")
        chosen = metrics.registry.restricted_registry(names) if names else metrics.registry
        return Response(encode(chosen), headers={"content-type": content_type})

    return pages(show_metrics, _report(health.live), _report(health.ready))


def _report(parts_of: Callable[[], Sequence[HealthPart]]) -> Page:
    async def answer(_: Request) -> Response:
        parts = parts_of()
        return report(parts, ok=all(part.ok for part in parts))

    return answer
