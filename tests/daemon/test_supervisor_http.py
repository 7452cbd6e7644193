"""One port for all processes: their metrics on one page, and the health of each."""

import json
import os
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.supervising import Supervise

pytestmark = pytest.mark.anyio


async def test_the_metrics_of_all_processes_are_on_one_page(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    status, page = await it.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert status == 200
    found = [(s.name, s.labels, s.value) for s in families["inboxd_things"].samples]
    assert found == [
        ("inboxd_things_total", {"process": "1", "kind": "a"}, 1.0),
        ("inboxd_things_total", {"process": "2", "kind": "a"}, 2.0),
    ]
    assert [s.value for s in families["inboxd_level"].samples] == [1.5, 2.5]
    assert page.count("# TYPE inboxd_level gauge") == 1
    states = {s.labels["state"]: s.value for s in families["inboxd_processes"].samples}
    assert states == {"ready": 2, "starting": 0, "leaving": 0, "waiting": 0}


async def test_named_metrics_are_shown_alone(supervise: Supervise) -> None:
    it = supervise()
    await it.is_ready()
    for name, own in (("inboxd_level", False), ("inboxd_processes", True)):
        _, page = await it.get(f"/metrics?name[]={name}")
        assert [family.name for family in text_string_to_metric_families(page)] == [name]
        assert ("process=" in page) is not own


async def test_a_process_that_does_not_answer_is_left_out_and_counted(supervise: Supervise) -> None:
    it = supervise(patience=1.0, silent1="")
    await it.is_ready()
    # It blocks in its answer, so it is killed after a while; then the page is complete again.
    _, page = await it.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert [s.labels["process"] for s in families["inboxd_level"].samples] == ["2"]
    unanswered = {
        s.labels["process"]: s.value for s in families["inboxd_process_unanswered"].samples
    }
    assert unanswered == {"1": 1, "2": 0}
    await it.logged("a process shows no life and is killed")
    it.take_back("silent1")


async def test_health_lists_each_process(supervise: Supervise) -> None:
    it = supervise(slow="")
    assert (await it.get("/healthz"))[0] == 200
    assert (await it.get("/readyz"))[0] == 503
    it.take_back("slow")
    await it.is_ready()
    status, page = await it.get("/readyz")
    parts = json.loads(page)["parts"]
    [first] = it.pids(number=1)
    assert (status, len(parts)) == (200, 2)
    assert parts[0] == {"name": "process 1", "ok": True, "detail": f"pid {first}"}
    it.tell("slow")
    for pid in it.pids():
        os.kill(pid, signal.SIGKILL)
    await it.manager.hears("STATUS=0 of 2 processes")
    assert (await it.get("/readyz"))[0] == 503, "no process is left"
    assert (await it.get("/healthz"))[0] == 200, "the supervisor restarts them"
