"""A process that fails shows why."""

import asyncio
from pathlib import Path

import pytest

from stage.processes import ProcessError, Program, service


def test_the_end_of_the_log_is_shown(tmp_path: Path) -> None:
    program = Program(["no_such_module"], log=tmp_path / "log", port=1)

    with pytest.raises(ProcessError, match="No module named no_such_module"):
        asyncio.run(program.done())


def test_a_process_that_ends_before_it_is_ready_is_reported(tmp_path: Path) -> None:
    async def run() -> None:
        async with service("no_such:app", log=tmp_path / "log", port=1).running():
            pytest.fail("the service reports that it is ready")

    with pytest.raises(ProcessError, match="ended with exit code"):
        asyncio.run(run())
