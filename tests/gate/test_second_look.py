"""The gate's second look: it may excuse one lateness, but never a broken promise."""

import json

import pytest

from tests.gate.conftest import FIRST_TIME_ONLY, Project

pytestmark = pytest.mark.timeout(300)


def test_a_lateness_that_does_not_repeat_is_unsteady(project: Project) -> None:
    project.plant(
        "late",
        FIRST_TIME_ONLY
        + """
    def test_in_time():
        if the_first_time():
            raise Late("Not within 30 seconds.")
    """,
    )
    found = project.run()
    assert (found.code, found.closing) == (0, "1 passed, 0 failed")
    [line] = found.about("UNSTEADY")
    assert "planted/test_late.py::test_in_time" in line
    assert "late; green in a second look, alone" in line
    assert "Late: Not within 30 seconds.; the machine" in found.output
    ledger = (project.runs / "latest/unsteady.tsv").read_text().split("\t")
    assert ledger[0] == "planted/test_late.py::test_in_time"
    assert "Not within 30 seconds." in ledger[2]


def test_a_violation_is_red_although_it_does_not_repeat(project: Project) -> None:
    project.plant(
        "once",
        FIRST_TIME_ONLY
        + """
    def test_each_effect_once():
        if the_first_time():
            raise Violation("an effect took place twice")
    """,
    )
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    [line] = found.about("RED")
    assert "safety gets no second look; repeated 10 times alone, 0 failed" in line


def test_each_assertion_of_a_test_marked_safety_is_a_violation(project: Project) -> None:
    project.plant(
        "marked",
        """
    pytestmark = pytest.mark.safety
    def test_an_assertion():
        assert [1, 1] == [1]
    def test_another_error():
        raise OSError("no such file")
    """,
    )
    found = project.run()
    assert found.closing == "0 passed, 2 failed"
    assertion, error = sorted(found.about("RED"))
    assert "marked; violation; safety gets no second look" in assertion
    assert "marked; plain; red again, alone" in error


def test_a_repeated_failure_is_red_with_its_seed_and_command(project: Project) -> None:
    project.environment["INBOXD_TEST_SEED"] = "4711"
    project.plant("wrong", "def test_sum():\n    assert 1 + 1 == 3, 'not three'\n")
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    [number] = [n for n, line in enumerate(found.summary) if line.startswith("RED")]
    head, error, command = found.summary[number : number + 3]
    assert "red again, alone" in head
    assert error.strip().startswith("AssertionError: not three; the machine")
    repeated = project.call("bash", "-c", command.strip())
    assert "INBOXD_TEST_SEED=4711 make test" in command
    assert "1 failed" in repeated.output


def test_nine_failures_get_no_second_look(project: Project) -> None:
    project.plant(
        "many",
        FIRST_TIME_ONLY.replace('"ran-once"', 'f"ran-{number}"').replace(
            "first_time()", "first_time(number)"
        )
        + """
    @pytest.mark.parametrize("number", range(9))
    def test_one_of_nine(number):
        assert not the_first_time(number)
    """,
    )
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 9 failed")
    assert len(found.about("RED")) == 9
    assert all("more than 8 tests failed: no second look" in line for line in found.about("RED"))
    assert len(found.summary) <= 40


def test_a_test_that_skips_itself_is_red_at_once(project: Project) -> None:
    project.plant("skips", "def test_of_a_program():\n    pytest.skip('wrk is missing')\n")
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "missing; no test may be skipped" in found.about("RED")[0]
    assert "wrk is missing" in found.output


def test_six_lines_of_debt_are_red(project: Project) -> None:
    project.plant("fine", "def test_fine():\n    pass\n")
    lines = [f"tests/test_{n}.py::test\t2026-11-28\tlate\n" for n in range(6)]
    ledger = project.folder / ".ci/unsteady.tsv"
    ledger.write_text("".join(lines[:5]))
    assert project.run().closing == "1 passed, 0 failed"
    ledger.write_text("".join(lines))
    found = project.run()
    assert (found.code, found.closing) == (1, "1 passed, 1 failed")
    assert "RED: 6 unsteady tests; 5 are allowed (.ci/unsteady.tsv)" in found.summary


def test_a_new_unsteady_test_counts_as_debt_and_a_known_one_once(project: Project) -> None:
    project.plant(
        "late",
        FIRST_TIME_ONLY + "\n    def test_in_time():\n        assert not the_first_time()\n",
    )
    ledger = project.folder / ".ci/unsteady.tsv"
    ledger.write_text("".join(f"tests/test_{n}.py::test\t2026-11-28\tlate\n" for n in range(5)))
    assert project.run().closing == "1 passed, 1 failed"
    (project.folder / "ran-once").unlink()
    ledger.write_text("planted/test_late.py::test_in_time\t2026-11-28\tlate\n")
    found = project.run()
    assert found.closing == "1 passed, 0 failed"
    assert "1 unsteady test; 5 are allowed (.ci/unsteady.tsv)" in found.summary


def test_names_with_spaces_quotes_and_dollars_are_run_again(project: Project) -> None:
    project.plant(
        "names",
        """
    @pytest.mark.parametrize("value", ["a b", "it's", "$HOME", "[x]", 'say "x"', "back\\\\slash"])
    def test_odd(value):
        assert not value
    """,
    )
    found = project.run()
    assert found.closing == "0 passed, 6 failed"
    assert all("red again, alone" in line for line in found.about("RED"))
    written = (project.runs / "latest/failures.jsonl").read_text().splitlines()
    assert len({json.loads(line)["test"] for line in written}) == 6
    again = sorted(project.runs.glob("latest/again-*.log"))
    assert all("1 failed" in log.read_text() for log in again)
    assert len(again) == 6


def test_a_file_that_skips_itself_is_red(project: Project) -> None:
    project.plant("absent", "pytest.importorskip('no_such_module')\ndef test_it():\n    pass\n")
    project.plant("fine", "def test_fine():\n    pass\n")
    found = project.run()
    assert found.code == 1
    assert "missing; no test may be skipped" in found.about("RED")[0]


def test_the_summary_shows_the_deciding_error_of_a_group(project: Project) -> None:
    project.plant(
        "group",
        """
    def test_it():
        raise ExceptionGroup("unhandled errors", [ValueError("noise"), Violation("lost a row")])
    """,
    )
    found = project.run()
    assert "group; violation" in found.about("RED")[0]
    assert "    Violation: lost a row; the machine" in found.output
