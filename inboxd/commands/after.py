"""Consequences of a command's end, and of the write of outcomes: room, suspects, keys, payloads.

Runners and the settler know the other parts of the processor only by this. *See:* `runners`,
`settler`.
"""

from inboxd.commands.bodies import CommandBodies
from inboxd.commands.leases import LostClaims
from inboxd.commands.room import CommandRoom
from inboxd.commands.sources.key_runs import KeyRuns
from inboxd.commands.sources.lanes import PlainLanes
from inboxd.commands.sources.limited import LimitedQueues
from inboxd.commands.sources.suspects import Suspects
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.store.rows import ClaimedCommand


class AfterEnds:
    def __init__(
        self,
        room: CommandRoom,
        outcomes: UnwrittenOutcomes,
        bodies: CommandBodies,
        key_runs: KeyRuns,
        suspects: Suspects,
        lanes: PlainLanes,
        limited: LimitedQueues,
        lost_claims: LostClaims,
    ) -> None:
        self._room = room
        self._outcomes = outcomes
        self._bodies = bodies
        self._key_runs = key_runs
        self._suspects = suspects
        self._lanes = lanes
        self._limited = limited
        self._lost_claims = lost_claims

    def ended(self, row: ClaimedCommand) -> None:
        """A command has ended, or was given back; its outcome may be unwritten."""
        if row["body_id"] is not None:
            self._bodies.done(row)
        self._suspects.ended(row)
        self.free()
        if self._key_runs.ended and not self._outcomes.waiting:
            self._room.wake()

    def written(self) -> None:
        self._suspects.written()
        self.free()
        if self._key_runs.ended:  # the next command of a key may run
            self._room.wake()

    def requeued(self) -> None:
        """Requeues were written, which change the processor's next due time."""
        self._room.wake()

    def left(self) -> None:
        """Rewind the cursors, so that another worker claims first: only it can read the command."""
        self._lanes.forget()
        self._limited.forget_lanes()

    def lost(self) -> None:
        """A command was lost by an error of this worker, which may still hold it."""
        self._lost_claims.soon()

    def free(self) -> None:
        self._room.ended(again=self._limited.retry())
