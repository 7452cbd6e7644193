"""The pages `/metrics`, `/healthz` and `/readyz` of a process, without payloads."""

from collections.abc import Callable, Sequence
from typing import Protocol

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.server import HealthPart, Page, pages, report
from inboxd.telemetry.metrics import Metrics


class Health(Protocol):
    """Both methods answer from memory, without waiting."""

    def live(self) -> Sequence[HealthPart]:
        """If a part is not ok, restart the process."""
        ...

    def ready(self) -> Sequence[HealthPart]:
        """If a part is not ok, a restart does not help."""
        ...


def application(metrics: Metrics, health: Health) -> Starlette:
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
