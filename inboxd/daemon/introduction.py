"""The identity and the abilities that a worker registers when it joins."""

import hashlib
import os
import socket
from collections.abc import Collection
from importlib.metadata import entry_points, version
from pathlib import Path
from uuid import uuid4

from inboxd.daemon.process_number import process_number
from inboxd.registry.plugins import GROUP
from inboxd.registry.registry import Registry
from inboxd.settings import Settings
from inboxd.store.workers import WorkerIdentity

# Maximum characters: it is part of each error of a row.
_RELEASE = 200


def introduce(settings: Settings, registry: Registry, schedules: tuple[str, ...]) -> WorkerIdentity:
    """The identity of a new worker of this process; schedules: the schedules that it sends."""
    queues, topics = tuple(settings.worker.queues), tuple(sorted(registry.only))
    # Producers may be silent only if each worker would find all rows that they write.
    serves = [*queues, *(f"topic {name}" for name in topics)]
    declared = "\n".join([*registry.declared(), *serves])
    return WorkerIdentity(
        id=uuid4(),
        name=settings.worker.name,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("inboxd"),
        events=tuple(registry.event_types),
        commands=tuple(registry.command_types),
        queues=queues,
        declares=hashlib.sha256(declared.encode()).hexdigest()[:16],
        schedules=schedules,
        topics=tuple(sorted(registry.topics)),
        subscriptions=tuple(registry.subscriptions),
        served_topics=topics,
        endpoints=tuple(sorted(settings.endpoints)),
        number=process_number(),
        release=release_of(settings.worker.plugins),
    )


def release_of(only: Collection[str] = ()) -> str | None:
    """The packages of the loaded plugins, with their versions; None: no plugin is packaged."""
    found = {
        f"{point.dist.name} {point.dist.version}"
        for point in entry_points(group=GROUP)
        if point.dist is not None and (not only or point.name in only)
    }
    told = ", ".join(sorted(found))
    if len(told) > _RELEASE:  # the digest still distinguishes releases
        digest = hashlib.blake2b(told.encode(), digest_size=4).hexdigest()
        told = f"{told[: _RELEASE - 9]}…{digest}"
    return told or None


def living_pids() -> list[int]:
    """Processes of this host, without this one: its number was a predecessor's in a container."""
    folder = Path("/proc")
    found = [int(entry.name) for entry in folder.glob("[0-9]*")]
    return [pid for pid in found if pid != os.getpid()]
