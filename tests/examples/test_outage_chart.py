"""The chart of the demo, and its count of attempts in a break, from looks that are made up."""

from rich.console import Console

from accounts.stage.chart import chart, drawn
from accounts.stage.looks import Look, spent_while_open


def seen(at: float, *, attempts: int = 5, state: str = "open", since: float = 3.0) -> Look:
    return Look(at, 100, 60, 40, attempts, state, 7, since)


def test_an_attempt_within_a_break_is_counted() -> None:
    assert spent_while_open([seen(1), seen(2), seen(3, attempts=6)]) == (1, 2)


def test_attempts_that_ran_when_the_break_began_are_not_counted() -> None:
    assert spent_while_open([seen(1, since=0.5), seen(2, attempts=6)]) == (0, 0)


def test_a_probe_does_not_count_as_an_attempt_within_a_break() -> None:
    looks = [seen(1), seen(2, state="half_open"), seen(3, attempts=6)]
    assert spent_while_open(looks) == (0, 0)


def test_the_chart_fits_and_ends_with_the_last_look() -> None:
    console = Console(width=80, force_terminal=False)
    with console.capture() as capture:
        console.print(chart([seen(second) for second in range(500)]))
        console.print(chart([]))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.endswith("█ 100") for line in lines)
    assert any(line.endswith(" open") for line in lines)


def test_without_a_terminal_each_second_has_a_line() -> None:
    console = Console(width=80, force_terminal=False, soft_wrap=True)
    with console.capture() as capture, drawn(console) as draw:
        for at in (0.0, 0.5, 1.0, 1.5):
            draw([seen(at)])
    assert capture.get().count("breaker open") == 2
