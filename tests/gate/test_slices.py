"""Slices: the gate runs those that the change touches, and the one that ran longest ago.

A slice without enough time is postponed, which is not red.
"""

import pytest

from gate.settings import read_settings
from tests.gate.conftest import ROOT, Project

pytestmark = pytest.mark.timeout(300)

FINE = "def test_fine():\n    pass\n"


@pytest.fixture
def sliced(project: Project) -> Project:
    """A project with a stage that always runs, and slices a, b and c."""
    project.plant("always", FINE)
    for name in ("a", "b", "c"):
        project.plant(name, FINE)
        project.settings += f'slice = "{name}"\n'
    project.settings += '[touches]\na = ["a/*", "all"]\nb = ["b/*"]\nc = ["c/*"]\n'
    project.settings = f'everything = ["Makefile"]\n{project.settings}'
    project.begin()
    return project


def ran(project: Project) -> set[str]:
    """Run the gate, which must be green; return the slices that ran."""
    found = project.call("bash", ".ci/run")
    assert (found.code, found.closing.split(", ")[1]) == (0, "0 failed"), found.output
    lines = [line for line in found.summary[1:] if " s  " in line and "postponed" not in line]
    return {line.split()[0] for line in lines} - {"always"}


def green(project: Project, slices: str) -> None:
    """Write a line of the ledger, as after a green run of these slices on the newest commit."""
    commit = project.git("rev-parse", "HEAD")
    with (project.folder / ".ci/ledger.tsv").open("a") as ledger:
        ledger.write(f"2026-01-01\t{commit}\t{slices}\t3 min\n")
    project.commit("green")


def test_all_slices_run_without_a_known_base(sliced: Project) -> None:
    assert ran(sliced) == {"a", "b", "c"}


def test_a_base_outside_the_history_is_not_known(sliced: Project) -> None:
    (sliced.folder / ".ci/ledger.tsv").write_text(f"2026-01-01\t{'0' * 40}\ta,b,c\t3 min\n")
    sliced.commit("from elsewhere")
    assert ran(sliced) == {"a", "b", "c"}


def test_a_base_that_is_no_commit_is_not_known(sliced: Project) -> None:
    (sliced.folder / ".ci/ledger.tsv").write_text("2026-01-01\tnothing\ta,b,c\t3 min\n")
    sliced.commit("a broken line")
    assert ran(sliced) == {"a", "b", "c"}


def test_touched_slices_run_and_the_one_that_ran_longest_ago(sliced: Project) -> None:
    green(sliced, "a,b,c")
    green(sliced, "b")
    sliced.write("b/file")
    sliced.commit("a change of b")
    assert ran(sliced) == {"b", "a"}
    green(sliced, "a,b")
    sliced.write("docs/page")
    sliced.commit("a change of none")
    assert ran(sliced) == {"c"}


def test_a_file_of_everything_touches_all(sliced: Project) -> None:
    green(sliced, "a")
    with (sliced.folder / "Makefile").open("a") as file:
        file.write("# more\n")
    sliced.commit("a change of all")
    assert ran(sliced) == {"a", "b", "c"}


def test_a_moved_file_touches_the_slice_that_it_left(sliced: Project) -> None:
    sliced.write("b/file", "the same text\n" * 20)
    sliced.commit("before")
    green(sliced, "a,b,c")
    sliced.git("mv", "b/file", "moved")
    sliced.commit("moved")
    assert "b" in ran(sliced)


def test_a_commit_that_changes_only_ledgers_runs_the_slices_of_the_last_one(
    sliced: Project,
) -> None:
    green(sliced, "a,b,c")
    green(sliced, "b")
    sliced.write("b/file")
    sliced.commit("a change of b")
    before = ran(sliced)
    green(sliced, ",".join(sorted(before)))
    assert ran(sliced) == before
    sliced.git("commit", "--quiet", "--allow-empty", "--message", "nothing")
    assert ran(sliced) == before


def test_make_ready_records_the_slices_and_the_next_change_runs_another(sliced: Project) -> None:
    green(sliced, "a,b,c")
    sliced.write("docs/page")
    sliced.commit("a change of none")
    assert sliced.call("bash", ".ci/ready").code == 0
    ledger = (sliced.folder / ".ci/ledger.tsv").read_text().splitlines()
    assert ledger[-1].split("\t")[1:3] == [sliced.git("rev-parse", "HEAD^"), "a"]
    assert (
        sliced.git("rev-parse", "HEAD^{tree}") == (sliced.folder / ".git/ready").read_text().strip()
    )
    assert ran(sliced) == {"a"}, "CI runs the same slices"
    sliced.write("docs/other")
    sliced.commit("another change of none")
    assert ran(sliced) == {"b"}


def test_an_untouched_slice_that_would_begin_too_late_is_left_out(sliced: Project) -> None:
    sliced.settings = f"slices_begin_within = 0\n{sliced.settings}"
    sliced.write_settings()
    sliced.commit("no time")
    green(sliced, "a,b,c")
    sliced.write("b/file")
    sliced.commit("a change of b")
    assert ran(sliced) == {"b"}
    assert (sliced.runs / "latest/ledger.tsv").read_text().split("\t")[2] == "b"


def test_a_touched_slice_stays_touched_until_it_runs(sliced: Project) -> None:
    green(sliced, "a,b,c")
    sliced.write("b/file")
    sliced.commit("a change of b")
    green(sliced, "a")
    sliced.write("c/file")
    sliced.commit("a change of c")
    assert ran(sliced) == {"a", "b", "c"}


def test_a_slice_that_needs_more_time_than_is_left_is_postponed(sliced: Project) -> None:
    sliced.settings = sliced.settings.replace('slice = "b"', 'slice = "b"\nusual = 3600')
    sliced.begin()
    found = sliced.call("bash", ".ci/run")
    assert (found.code, found.closing) == (0, "3 passed, 0 failed"), found.output
    [line] = found.about("b ")
    assert "postponed, it needs about 3600 s" in line
    assert (sliced.runs / "latest/ledger.tsv").read_text().split("\t")[2] == "a,c"


def test_a_slow_machine_postpones_a_slice_in_proportion(sliced: Project) -> None:
    sliced.settings = sliced.settings.replace('slice = "b"', 'slice = "b"\nusual = 300')
    sliced.settings = sliced.settings.replace("limit = 60", "limit = 60\nusual = 0.001", 1)
    sliced.begin()
    found = sliced.call("bash", ".ci/run")
    assert found.code == 0, found.output
    assert "postponed" in found.about("b ")[0]


def test_a_slice_counts_as_run_only_with_all_its_stages(sliced: Project) -> None:
    sliced.plant("b2", FINE)
    sliced.settings += 'slice = "b"\nusual = 3600\n'
    sliced.begin()
    found = sliced.call("bash", ".ci/run")
    assert (found.code, found.closing) == (0, "4 passed, 0 failed"), found.output
    assert (sliced.runs / "latest/ledger.tsv").read_text().split("\t")[2] == "a,c"


def test_ci_begins_with_the_slices_that_make_ready_postponed(sliced: Project) -> None:
    green(sliced, "a,b,c")
    sliced.write("a/file")
    sliced.write("b/file")
    sliced.commit("a change of two")
    green(sliced, "a")  # as `make ready` writes it that had no time for b
    found = sliced.call("bash", ".ci/run")
    assert "slices: b (touched since" in found.output
    assert found.output.index("slices: b (") < found.output.index("; a (")


HANGS = "import time\ndef test_it():\n    time.sleep(3600)\n"


@pytest.fixture
def hanging(project: Project) -> Project:
    """A project whose slice has no end."""
    project.plant("always", FINE)
    project.plant("c", HANGS)
    project.settings = project.settings.removesuffix("limit = 60\n") + "limit = 600\n"
    project.settings += 'slice = "c"\nusual = 40\n[touches]\nc = ["c/*"]\n'
    return project


def test_a_slice_that_has_not_ended_in_time_is_postponed(hanging: Project) -> None:
    """It had less than twice its usual time: it might have ended, so it is not red."""
    hanging.settings = hanging.settings.replace(
        "deadline = 600", "deadline = 140\nsecond_looks = 5"
    )
    hanging.begin()
    found = hanging.call("bash", ".ci/run")
    assert (found.code, found.closing) == (0, "1 passed, 0 failed"), found.output
    assert "postponed, it had not ended after" in found.about("c ")[0]
    assert (hanging.runs / "latest/ledger.tsv").read_text().split("\t")[2] == ""


def test_a_slice_that_takes_twice_its_time_is_red_though_no_time_is_left(hanging: Project) -> None:
    hanging.settings = hanging.settings.replace("deadline = 600", "deadline = 120")
    hanging.settings = hanging.settings.replace("usual = 40", "usual = 1")
    hanging.begin()
    found = hanging.call("bash", ".ci/run")
    assert (found.code, found.closing) == (1, "1 passed, 1 failed"), found.output
    assert "RED: it did not end within" in found.about("c ")[0]


def test_a_slice_beyond_its_limit_is_red(hanging: Project) -> None:
    hanging.settings = hanging.settings.replace("limit = 600", "limit = 5")
    hanging.begin()
    found = hanging.call("bash", ".ci/run")
    assert (found.code, found.closing) == (1, "1 passed, 1 failed"), found.output
    assert "RED: it did not end within 5 seconds" in found.about("c ")[0]


def test_a_failure_before_a_slice_is_postponed_is_red(hanging: Project) -> None:
    fails = "def test_fails():\n    assert False\n\n"
    hanging.write("planted/test_c.py", f"{fails}{HANGS}")
    hanging.settings = hanging.settings.replace(
        "deadline = 600", "deadline = 190\nsecond_looks = 50"
    )
    hanging.begin()
    found = hanging.call("bash", ".ci/run")
    assert (found.code, found.closing) == (1, "1 passed, 1 failed"), found.output
    assert "red again, alone" in found.about("RED")[0]


FAILS = "def test_it():\n    assert False, 'it never worked'\n"


def test_a_red_test_of_an_untouched_slice_is_inherited_if_it_was_red_before(
    sliced: Project,
) -> None:
    green(sliced, "a,b,c")
    sliced.write("planted/test_a.py", FAILS)
    sliced.commit("it is red")
    green(sliced, "b,c")
    sliced.write("docs/page")
    sliced.commit("a change of none")
    found = sliced.call("bash", ".ci/run")
    assert (found.code, found.closing) == (0, "2 passed, 0 failed"), found.output
    [line] = found.about("INHERITED")
    assert "planted/test_a.py::test_it" in line
    assert (
        (sliced.runs / "latest/unsteady.tsv").read_text().startswith("planted/test_a.py::test_it\t")
    )
    assert len(sliced.git("worktree", "list").splitlines()) == 1


def test_a_new_red_test_of_an_untouched_slice_is_red(sliced: Project) -> None:
    green(sliced, "a,b,c")
    green(sliced, "b,c")
    sliced.write("planted/test_a.py", FAILS)
    sliced.commit("a change whose effect nobody foresaw")
    found = sliced.call("bash", ".ci/run")
    assert (found.code, found.closing) == (1, "1 passed, 1 failed")
    assert found.about("INHERITED") == []


def test_a_red_test_of_a_slice_that_was_postponed_is_red_and_said_to_be_older(
    sliced: Project,
) -> None:
    green(sliced, "a,b,c")
    sliced.write("a/file")
    sliced.write("planted/test_a.py", FAILS)
    sliced.commit("a change of a, which is red")
    green(sliced, "b,c")
    sliced.write("docs/page")
    sliced.commit("a change of none")
    found = sliced.call("bash", ".ci/run")
    assert found.code == 1
    assert "too, since an earlier change" in found.about("RED")[0]


def test_a_red_test_of_a_touched_slice_is_red_though_it_was_red_before(sliced: Project) -> None:
    sliced.write("planted/test_a.py", FAILS)
    sliced.commit("it is red")
    green(sliced, "b,c")
    sliced.write("a/file")
    sliced.commit("a change of a")
    found = sliced.call("bash", ".ci/run")
    assert found.code == 1
    assert found.about("INHERITED") == []


def test_a_slice_without_files_is_a_mistake_of_the_settings(project: Project) -> None:
    project.plant("a", FINE)
    project.settings += 'slice = "a"\n'
    found = project.run()
    assert (found.code, found.closing) == (1, "0 passed, 1 failed")
    assert "slices of [touches] and of stages differ" in found.output


def test_each_pattern_of_the_settings_matches_a_file() -> None:
    settings = read_settings()
    patterns = [
        *settings.everything,
        *(each for name in settings.touches.values() for each in name),
    ]
    assert [each for each in patterns if not any(ROOT.glob(each))] == []


def test_each_slice_has_time_on_a_machine_of_two_thirds_of_the_speed() -> None:
    settings = read_settings()
    always = 120 + sum(each.usual for each in settings.stages if not each.slice)
    time = settings.deadline - 60 - settings.second_looks
    for name in settings.touches:
        usual = [each.usual for each in settings.stages if each.slice == name]
        assert all(usual), name
        assert 1.5 * (always + sum(usual)) <= time, name
    assert all(2 * each.usual <= each.limit for each in settings.stages)
