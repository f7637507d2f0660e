"""The rules of a shared limiter, as changes of one state: which requests run, which wait and how long.

`sqlite.py` runs them here, within a transaction; `redis.py` has the same rules in Lua, and a test
compares the two. A store uses only its own clock. The order is exact only as far as that is cheap: a
waiter far back in the queue gets an estimate from averages, and a new one each time it asks.

Costs, levels and sizes are lists of four: requests, tokens, input tokens, output tokens. A size of 0 is no
limit. Times are seconds of the store's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

__all__ = [
    "Answer",
    "Ask",
    "Batch",
    "Beat",
    "Bye",
    "Cancel",
    "Cap",
    "Learn",
    "Line",
    "Op",
    "Pause",
    "Refused",
    "Release",
    "State",
    "Waiting",
    "apply",
]

SILENT_PART: Final = 0.1
"""The waiters of a process without contact for this fraction of a lease lose their place in the queue."""

MEMBER_S: Final = 30.0
"""How long after its last contact a process counts as sharing the limits."""

SLACK_S: Final = 0.1
"""A waiter on time may overtake late ones whose turn was at most this much earlier."""

NEAR: Final = 32
"""This many waiters in front are added up exactly; the others count as the average."""

EXPECTED_S: Final = 0.05
"""A waiter that will ask again within this time is not woken."""

MISSED_S: Final = 1.0
"""A waiter that has not asked this long after its turn is woken again: the message may be lost."""

WOKEN: Final = 8
"""The most waiters that one batch wakes; each of them sends a batch in turn."""

# The window of the buckets: after a minute they are full.
LONGEST_PAUSE_S: Final = 60.0

# As for the limiter of one process: see `transport/pacing.py`.
CUT: Final = 0.7
GROWTH_PER_S: Final = 0.05 / 60
LOWEST_FACTOR: Final = 0.1
USED_UP: Final = 0.1
"""A bucket below this fraction of its size explains a refusal; its size need not be reduced."""

_NEVER: Final = 1e18

# Numbers for each of the priorities.
_RANKS: Final = 2**40


class Ask(msgspec.Struct, array_like=True, tag="ask"):
    """Requests a permit, and joins the queue if it must wait. `again`: its estimated time has come."""

    id: str
    cost: list[float]
    priority: int
    again: bool


class Cancel(msgspec.Struct, array_like=True, tag="cancel"):
    """Leaves the queue."""

    id: str


class Release(msgspec.Struct, array_like=True, tag="release"):
    """Frees a place; `extra` is the response's cost beyond its estimate, negative for a refund."""

    id: str
    extra: list[float]


class Learn(msgspec.Struct, array_like=True, tag="learn"):
    """The vendor's reported limits and remaining allowances; -1 for those not reported.

    spent, at: of the grant of the answered request; [] and 0 if it is not known
    """

    limits: list[float]
    remaining: list[float]
    spent: list[float]
    at: float


class Pause(msgspec.Struct, array_like=True, tag="pause"):
    """Pauses all requests for this time."""

    seconds: float


class Refused(msgspec.Struct, array_like=True, tag="refused"):
    """A 429.

    at:      of the grant
    used_up: whether the vendor reports an empty bucket: 1, 0, or -1 unknown
    """

    at: float
    used_up: int


class Beat(msgspec.Struct, array_like=True, tag="beat"):
    """Renews the leases of these places."""

    ids: list[str]


class Cap(msgspec.Struct, array_like=True, tag="cap"):
    """Levels known to a process while the store was unreachable; -1 for none."""

    levels: list[float]


class Bye(msgspec.Struct, array_like=True, tag="bye"):
    """A process disconnects: its waiters leave the queue, its places are freed."""

    member: str


Op = Ask | Cancel | Release | Learn | Pause | Refused | Beat | Cap | Bye


class Batch(msgspec.Struct, array_like=True):
    """Operations of one process, applied together and in order.

    member:  the process
    waiting: whether it has waiters that may be in the queue
    sizes:   its configured limits per minute
    places:  maximum number of concurrent responses; 0 for no limit
    lease_s: a place is freed this long after the last contact of its process
    """

    member: str
    waiting: bool
    sizes: list[float]
    places: int
    lease_s: float
    ops: list[Op]


class Answer(msgspec.Struct, array_like=True):
    """The result of a batch.

    now:     the store's time
    created: when the state was created; a changed value means that the store has lost the old state
    members: how many processes share the limits
    levels:  of the buckets
    spent:   the grants of all processes, for `Learn`
    woken:   waiters that should ask again now, of any process
    results: for each op: of Ask, -1 if granted, else seconds until its turn, 1e18 if no time is known; of
             Refused, the new factor of all sizes or 0; of others 0
    in_line: whether this process was among those with waiters; if it should have been, it was silent for so
             long that its waiters were taken out of the line
    """

    now: float
    created: float
    members: int
    levels: list[float]
    spent: list[float]
    woken: list[str]
    results: list[float]
    in_line: bool


class Waiting(msgspec.Struct):
    """A waiter in the queue.

    rank: its order, by priority and then by arrival
    due:  when its turn is estimated; 1e18 if a place has to be freed first
    """

    id: str
    rank: int
    cost: list[float]
    due: float


class Line(Protocol):
    """The queue of one name, ordered by rank.

    All methods but `in_front` and `of` take the same time, however long the queue is.
    """

    def find(self, id: str) -> Waiting | None:
        """The waiter with this id."""

    def put(self, waiting: Waiting) -> None:
        """Adds it, or changes when it is due."""

    def remove(self, id: str) -> None:
        """Removes it."""

    def front(self, count: int) -> Sequence[Waiting]:
        """The first waiters."""

    def has_behind(self, rank: int) -> bool:
        """Whether any waiter comes after this rank."""

    def in_front(self, rank: int) -> int:
        """The number of waiters before this rank; linear in it."""

    def of(self, member: str) -> Sequence[str]:
        """The ids of all waiters of a process."""


class State(msgspec.Struct):
    """The state of one name beside its queue.

    given, limits: sizes from the callers and from the vendor; 0 for none
    spent:   sum of all grants and corrections
    count, queued: how many are in the queue, and the sum of their costs
    factor:  of all sizes, reduced by refusals; recovers from `cut_at` on
    places:  leases, by id of the grant
    waiting, members: time of the last contact of processes
    """

    created: float
    at: float
    given: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    limits: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    levels: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    spent: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    count: int = 0
    queued: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    number: int = 0
    pause_until: float = 0.0
    factor: float = 1.0
    cut_at: float = 0.0
    places: dict[str, float] = {}
    waiting: dict[str, float] = {}
    members: dict[str, float] = {}


def apply(state: State, line: Line, batch: Batch, now: float) -> Answer:
    """Applies a batch to the state and its queue at this time; a clock that went back counts as stopped."""
    return _Change(state, line, batch, max(now, state.at)).run()


class _Change:
    def __init__(self, state: State, line: Line, batch: Batch, now: float) -> None:
        self.state, self.line, self.batch, self.now = state, line, batch, now

    def run(self) -> Answer:
        state, batch = self.state, self.batch
        self._begin()
        results = [self._apply(op) for op in batch.ops]
        woken = self._woken()
        return Answer(
            self.now,
            state.created,
            len(state.members),
            list(state.levels),
            list(state.spent),
            woken,
            results,
            self.in_line,
        )

    def _begin(self) -> None:
        """Updates the state to this time."""
        state, batch, now = self.state, self.batch, self.now
        for kind, size in enumerate(batch.sizes):
            if size > 0:
                # A new limit begins full, as the vendor's does; a changed one keeps its level.
                if state.given[kind] == 0:
                    state.levels[kind] = size
                state.given[kind] = size
        elapsed, state.at = now - state.at, now
        self._resize()
        for kind, size in enumerate(self.sizes):
            if size > 0:
                state.levels[kind] = min(size, state.levels[kind] + elapsed * size / 60)
        state.members[batch.member] = now
        state.members = {member: at for member, at in state.members.items() if at >= now - MEMBER_S}
        state.places = {place: until for place, until in state.places.items() if until > now}
        self.in_line = state.waiting.pop(batch.member, None) is not None
        if batch.waiting:
            state.waiting[batch.member] = now
        for member in [
            member for member, at in state.waiting.items() if at < now - batch.lease_s * SILENT_PART
        ]:
            del state.waiting[member]
            self._drop_member(member)

    def _resize(self) -> None:
        """The current sizes: configured by callers, lowered by the vendor's reports and by refusals."""
        state = self.state
        self.factor = min(1.0, state.factor + max(0.0, self.now - state.cut_at) * GROWTH_PER_S)
        self.sizes = [
            min(given, limit) * self.factor if limit > 0 else given * self.factor
            for given, limit in zip(state.given, state.limits, strict=True)
        ]

    def _apply(self, op: Op) -> float:
        match op:
            case Ask():
                return self._ask(op)
            case Cancel(id):
                self._leave(id)
            case Release(id, extra):
                self.state.places.pop(id, None)
                self._correct(extra)
            case Learn():
                self._learn(op)
            case Pause(seconds):
                until = self.now + min(seconds, LONGEST_PAUSE_S)
                self.state.pause_until = max(self.state.pause_until, until)
            case Refused():
                return self._refused(op)
            case Beat(ids):
                self.state.places.update(dict.fromkeys(ids, self.now + self.batch.lease_s))
            case Cap(levels):
                for kind, level in enumerate(levels):
                    if level > -_NEVER:
                        self.state.levels[kind] = min(self.state.levels[kind], level)
            case Bye(member):
                self._bye(member)
        return 0.0

    # The queue.

    def _ask(self, op: Ask) -> float:
        state = self.state
        waiting = self.line.find(op.id)
        again = op.again and waiting is not None  # a waiter dropped from the queue starts again
        if waiting is None:
            state.number += 1
            state.count += 1
            _add(state.queued, op.cost)
            waiting = Waiting(op.id, state.number - op.priority * _RANKS, op.cost, 0.0)
        place = self._place(waiting.rank)
        wait_s = self._wait_s(waiting, place, self._ahead(waiting, place), SLACK_S if again else 0.0)
        if wait_s > 0:
            waiting.due = min(_NEVER, self.now + wait_s)
            self.line.put(waiting)
            return wait_s
        self._remove(waiting)
        for kind in range(4):
            state.levels[kind] -= op.cost[kind]
        _add(state.spent, op.cost)
        if self.batch.places:
            state.places[op.id] = self.now + self.batch.lease_s
        return -1.0

    def _place(self, rank: int) -> int:
        """The number of waiters in front; derived from the length for the last one, as most new ones are."""
        return self.line.in_front(rank) if self.line.has_behind(rank) else self.state.count - 1

    def _ahead(self, waiting: Waiting, place: int) -> list[float]:
        """The cost of the waiters in front; beyond the first ones, from the average."""
        ahead = [0.0] * 4
        for other in self.line.front(min(place, NEAR)):
            _add(ahead, other.cost)
        if place > NEAR:
            near = list(ahead)
            _add(near, waiting.cost)
            others = self.state.count - NEAR - 1
            for kind in range(4):
                each = max(0.0, self.state.queued[kind] - near[kind]) / max(1, others)
                ahead[kind] += each * (place - NEAR)
        return ahead

    def _wait_s(self, waiting: Waiting, place: int, ahead: list[float], slack_s: float) -> float:
        """Seconds until its turn; 0 for now, 1e18 if a place has to be freed first."""
        state = self.state
        if self.batch.places and place >= self.batch.places - len(state.places):
            return _NEVER
        wait_s = max(0.0, state.pause_until - self.now)
        for kind, size in enumerate(self.sizes):
            if size > 0:
                own = min(waiting.cost[kind], size)
                need, level = ahead[kind] + own, state.levels[kind]
                missing = max(own, need - slack_s * size / 60) - level
                if missing > 1e-9 * size:  # rounding errors
                    wait_s = max(wait_s, (need - level) * 60 / size)
        return wait_s

    def _leave(self, id: str) -> None:
        if waiting := self.line.find(id):
            self._remove(waiting)

    def _remove(self, waiting: Waiting) -> None:
        self.line.remove(waiting.id)
        self.state.count -= 1
        for kind in range(4):
            self.state.queued[kind] -= waiting.cost[kind]
        if not self.state.count:
            self.state.queued = [0.0] * 4  # rounding errors

    def _drop_member(self, member: str) -> None:
        for id in self.line.of(member):
            self._leave(id)

    def _bye(self, member: str) -> None:
        self._drop_member(member)
        self.state.members.pop(member, None)
        self.state.waiting.pop(member, None)
        for id in [place for place in self.state.places if place.startswith(f"{member}.")]:
            del self.state.places[id]

    def _woken(self) -> list[str]:
        """Waiters at the front that may now run because capacity was freed, and must be woken."""
        woken, ahead = [], [0.0] * 4
        for place, waiting in enumerate(self.line.front(WOKEN)):
            wait_s = self._wait_s(waiting, place, ahead, 0.0)
            unknown = waiting.due >= _NEVER
            if wait_s >= _NEVER or (wait_s > 0 and not unknown):
                break
            if waiting.due > self.now + EXPECTED_S or waiting.due < self.now - MISSED_S:
                waiting.due = self.now
                self.line.put(waiting)
                woken.append(waiting.id)
            _add(ahead, waiting.cost)
        return woken

    # The buckets.

    def _correct(self, extra: list[float]) -> None:
        """Deducts a response's cost beyond its estimate, at most into a debt repaid within a minute."""
        state = self.state
        _add(state.spent, extra)
        for kind, size in enumerate(self.sizes):
            if size > 0:
                before = state.levels[kind]
                state.levels[kind] = max(min(size, before - extra[kind]), min(before, -size))

    def _learn(self, op: Learn) -> None:
        """Lowers the buckets to what the vendor reports, less the grants since the request was sent."""
        state = self.state
        for kind, limit in enumerate(op.limits):
            if limit >= 1:
                state.limits[kind] = limit
        self._resize()
        for kind, size in enumerate(self.sizes):
            if size > 0:
                level = min(size, state.levels[kind])
                if op.remaining[kind] >= 0:
                    level = min(level, op.remaining[kind] - self._since(op, kind, size))
                state.levels[kind] = level

    def _since(self, op: Learn, kind: int, size: float) -> float:
        """The grants since a request was sent, less refills: its response may not include them."""
        if not op.spent:
            return 0.0
        refilled = max(0.0, self.now - op.at) * size / 60
        return max(0.0, self.state.spent[kind] - op.spent[kind] - refilled)

    def _refused(self, op: Refused) -> float:
        """Reduces all sizes after a refusal that no empty bucket explains, once for all earlier grants."""
        state = self.state
        if op.used_up == 1 or op.at < state.cut_at or not any(self.sizes):
            return 0.0
        if op.used_up < 0 and any(
            size > 0 and state.levels[kind] < USED_UP * size for kind, size in enumerate(self.sizes)
        ):
            return 0.0
        state.factor = max(LOWEST_FACTOR, self.factor * CUT)
        state.cut_at = self.now
        self._resize()
        for kind, size in enumerate(self.sizes):
            state.levels[kind] = min(size, state.levels[kind])
        return state.factor


def _add(sums: list[float], costs: list[float]) -> None:
    for kind in range(4):
        sums[kind] += costs[kind]
