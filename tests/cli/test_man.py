"""`inboxd man`: the manual page has all texts of `--help`, as roff."""

import re
import shutil
import subprocess

import typer.main

from inboxd.cli.exits import Exit
from inboxd.main.app import app
from tests.cli.conftest import Cli
from tests.main.test_app import _commands

# Lines of roff that are not text begin with one of these.
_REQUESTS = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".nf", ".fi", ".RS", ".RE"}
_ESCAPES = re.compile(r"\\(f[BIR]|e|-|&|\((?:dq|aq|ga|ha|ti))")


def test_page_has_every_command_option_and_exit_code_as_roff(run_cli: Cli) -> None:
    page = run_cli("man").out
    for name, options in _commands(typer.main.get_command(app)).items():
        _, _, rest = page.partition(f'.SS "inboxd {name.replace("-", chr(92) + "-")}')
        section = re.split(r"\n\.S[SH] ", rest)[0].replace("\\-", "-")
        assert section, name
        assert [each for each in options - {"--help"} if each not in section] == [], name
        assert f"inboxd {name}" in section.partition("Examples:")[2], name
    ends = page.partition(".SH EXIT STATUS")[2].partition(".SH ")[0]
    assert re.findall(r"\\fB(\d+)\\fR", ends) == [str(int(code)) for code in Exit]


def test_page_is_valid_roff(run_cli: Cli) -> None:
    page = run_cli("man").out
    for line in page.splitlines():
        if line.startswith((".", "'")):
            assert line.split()[0] in _REQUESTS
        assert line
        assert "\\" not in _ESCAPES.sub("", line), line
    for opens, closes in ((".nf", ".fi"), (".RS", ".RE")):
        assert page.count(f"\n{opens}\n") == page.count(f"\n{closes}\n") > 10
    if shutil.which("groff"):  # check with groff itself, where it is installed
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"],  # noqa: S607 - found above
            input=page,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        assert "a name is not declared" in done.stdout


def test_page_is_the_same_each_time(run_cli: Cli) -> None:
    assert run_cli("man").out == run_cli("man").out
