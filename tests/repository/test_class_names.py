"""A name means one thing: no two classes of the package share one."""

import ast
from collections import defaultdict
from pathlib import Path

import inboxd

ROOT = Path(inboxd.__file__).parent


def _classes() -> dict[str, list[str]]:
    """Where each class is defined."""
    found = defaultdict[str, list[str]](list)
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{file.relative_to(ROOT.parent)}:{node.lineno}")
    return found


def test_no_two_classes_share_a_name() -> None:
    assert {name: places for name, places in _classes().items() if len(places) > 1} == {}
