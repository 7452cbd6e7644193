"""A workflow as a handler builds it: named steps that wait for each other.

Owns `Workflow` and `Step`. Promises: a waiting step is never run before the steps that it waits for
meet their condition, and is released once; a circle, an unknown step or a repeated name is refused
before anything is written. Known limit: the steps are fixed when the workflow is made; a step that
must decide what follows sends the following commands itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack
from uuid import UUID

from inboxd.api.batches import Batch, filled
from inboxd.api.groups import After, BatchBuilder, Continued, Groups, Node, check_text
from inboxd.api.options import SendOptions
from inboxd.errors import UsageError
from inboxd.model.workflow import Edge, Graph

Awaited = Node | After | str


class Step(Node):
    """A command of a workflow; `id` is the command's."""

    __slots__ = ("name",)

    def __init__(self, groups: Groups, id: UUID, name: str) -> None:
        """Stand for a member; handlers call `Workflow.step` instead."""
        super().__init__(groups, id)
        self.name = name

    def __repr__(self) -> str:
        return f"<Step {self.name}>"


class Workflow(Continued):
    """A graph of steps; `id` names the batch of all its steps. Made by `ctx.workflow`."""

    __slots__ = ("_builder", "_graph", "_groups", "_members", "_names", "_outside", "id")

    def __init__(self, groups: Groups, builder: BatchBuilder) -> None:
        """Build the workflow `builder`; handlers call `ctx.workflow` instead."""
        self._groups = groups
        self._builder = builder
        self.id = builder.batch_id
        self._graph = Graph()
        self._members: dict[str, UUID] = {}
        self._names: dict[UUID, str] = {}
        # Steps that wait for batches outside the workflow. Such a batch waits for nothing, so it
        # cannot be part of a circle.
        self._outside: dict[str, list[After]] = {}
        groups.at_end(self._settle_edges)

    def __repr__(self) -> str:
        return f"<Workflow {self._builder.name or self.id}: {len(self._members)} steps>"

    def step(
        self,
        name: str,
        command: object,
        *,
        after: Awaited | Iterable[Awaited] = (),
        **options: Unpack[SendOptions],
    ) -> Step:
        """Add a command that runs when all of `after` have met their condition.

        `after` names steps or batches; a step `a` means that `a` must have succeeded, like
        `a.succeeded`; there are also `a.failed` and `a.finished`. Text names a step, which may be
        added later. The options are as for `ctx.send`.
        """
        self._groups.check_open()
        self._add(name, after)
        try:
            member = self._groups.send(command, options, self._builder)
        except Exception:
            self._graph.remove(name)
            del self._outside[name]
            raise
        self._know(name, member)
        return Step(self._groups, member, name)

    def batch(
        self,
        name: str,
        commands: Iterable[object] = (),
        *,
        after: Awaited | Iterable[Awaited] = (),
        **options: Unpack[SendOptions],
    ) -> Batch:
        """Add a batch as a step; the options are for each of its commands."""
        self._groups.check_open()
        self._add(name, after)
        tenant = options.get("tenant")
        builder = self._groups.make("batch", name, parent=self._builder, tenant=tenant)
        self._know(name, builder.batch_id)
        return filled(self._groups, builder, commands, options)

    def chain(
        self,
        *commands: object,
        after: Awaited | Iterable[Awaited] = (),
        **options: Unpack[SendOptions],
    ) -> list[Step]:
        """Add commands that run one after the other, each a step with the name of its class."""
        steps: list[Step] = []
        for command in commands:
            name = self._unused(type(command).__name__)
            steps.append(self.step(name, command, after=steps[-1:] or after, **options))
        return steps

    def _add(self, name: str, after: Awaited | Iterable[Awaited]) -> None:
        check_text("a step's name", name)
        edges: list[Edge] = []
        outside: list[After] = []
        for each in _each(name, after):
            if isinstance(each, str):
                edges.append(Edge(each))
                continue
            if not isinstance(each, Node | After):
                raise _no_node(name, each)
            wanted = each.succeeded if isinstance(each, Node) else each
            if wanted.id in self._names:
                edges.append(Edge(self._names[wanted.id], wanted.condition))
            elif wanted.groups is self._groups and self._groups.is_beside(wanted.id):
                outside.append(wanted)
            else:
                raise UsageError(
                    f"The step {name!r} can wait for steps of its own workflow, and for batches "
                    "that this handler made with ctx.batch, but not for parts of other workflows "
                    "or batches."
                )
        self._graph.add(name, edges)
        self._outside[name] = outside

    def _know(self, name: str, member: UUID) -> None:
        self._members[name] = member
        self._names[member] = name
        self._groups.name_step(self.id, name, member)

    def _unused(self, name: str) -> str:
        tried, number = name, 1
        while tried in self._graph:
            number += 1
            tried = f"{name} {number}"
        return tried

    def _settle_edges(self) -> None:
        """Check the graph, and add an edge for each step's waits."""
        self._graph.check()
        for name, edges in self._graph.edges.items():
            for needed, condition in edges.items():
                self._groups.wait(self._members[name], self._members[needed], condition)
        for name, outside in self._outside.items():
            for wanted in outside:
                self._groups.wait(self._members[name], wanted.id, wanted.condition)


def _each(name: str, after: Awaited | Iterable[Awaited]) -> Iterable[Awaited]:
    if isinstance(after, str | Node | After):
        return (after,)
    if not isinstance(after, Iterable):
        raise _no_node(name, after)
    return after


def _no_node(name: str, after: object) -> UsageError:
    return UsageError(
        f"The step {name!r} cannot wait for {after!r}: after= takes steps, batches and their names."
    )
