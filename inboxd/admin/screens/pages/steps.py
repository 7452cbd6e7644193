"""The steps of a workflow on its page: a drawing with folded nodes, and pages of a table."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from anyio import to_thread

from inboxd.admin.screens import addresses
from inboxd.admin.screens.pages.queries import row_number
from inboxd.admin.screens.screen import PageVisit
from inboxd.errors import UsageError
from inboxd.model.step_graph import StepNode, draw, edges_of, layers_of
from inboxd.operations.batch_details import STEPS

_PAGE: Final = 50
# Parameters that choose steps; and the one with the first step of the table's page.
CHOICES: Final = ("layer", "to_layer", "step_status", "step_type")
_FROM: Final = "from_step"


async def steps_shown(visit: PageVisit, row: Mapping[str, Any]) -> dict[str, Any]:
    steps: Sequence[Mapping[str, Any]] = row["steps"]
    if not steps:
        return {"graph": None, "steps": (), "step_choice": {}}
    query = visit.query
    chosen = {name: value for name in CHOICES if (value := query.get(name))}
    found = _chosen(steps, chosen)
    begin = row_number(query, _FROM) or 0
    address = partial(addresses.with_query, f"/batches/{row['id']}", query.multi_items())
    nothing: dict[str, object] = dict.fromkeys((*CHOICES, _FROM))

    def leads(node: StepNode) -> str:
        if node.alone is None:
            some: dict[str, object] = {"layer": node.first, "to_layer": node.last}
            some |= {"step_status": node.status, "step_type": node.type}
            return f"{address(**{**nothing, **some})}#steps"
        if node.alone["id"] is None:
            return "#steps"
        place = "commands" if node.alone["kind"] == "command" else "batches"
        return f"/{place}/{node.alone['id']}"

    more = begin + _PAGE < len(found)
    return {
        # In a thread: many steps with many conditions take some tenths of a second.
        "graph": await to_thread.run_sync(draw, steps),
        "leads": leads,
        "steps": found[begin : begin + _PAGE],
        "steps_found": len(found),
        "steps_cut": len(steps) >= STEPS,
        "step_choice": chosen,
        "all_steps": address(**nothing),
        "first_steps": address(**{_FROM: None}) if begin else None,
        "next_steps": address(**{_FROM: begin + _PAGE}) if more else None,
    }


def _chosen(
    steps: Sequence[Mapping[str, Any]], chosen: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    if not chosen:
        return list(steps)
    try:
        first = int(chosen.get("layer", 0))
        last = int(chosen.get("to_layer", chosen.get("layer", len(steps))))
    except ValueError:
        raise UsageError("layer and to_layer must be numbers; the first layer is 0") from None
    layers = layers_of(edges_of(steps))
    return [
        step
        for step in steps
        if first <= layers[step["name"]] <= last
        and chosen.get("step_status", step["status"]) == step["status"]
        and chosen.get("step_type", step["type"]) == step["type"]
    ]
