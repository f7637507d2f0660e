"""The rules of a shared limiter, as changes of one state: who goes, who waits and how long.

SQLite runs them as they stand here, within a transaction; `redis.py` has the same rules in Lua, and a test
compares the two. A store knows its own clock only. Nothing here is exact about order beyond what it costs:
a waiter far back gets an estimate from averages, and a new one each time it asks.

Costs, levels and sizes are lists of four: requests, tokens, input tokens, output tokens. A size of 0 is no
limit. Times are seconds of the store's clock.
"""

from __future__ import annotations

from typing import Final

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
    "Op",
    "Pause",
    "Refused",
    "Release",
    "State",
    "apply",
]

SILENT_PART: Final = 0.1
"""The waiters of a process that is silent for this part of a lease lose their turn."""

MEMBER_S: Final = 30.0
"""A process counts so long among those that share the limits."""

SLACK_S: Final = 0.1
"""Who comes for its turn may overtake those whose turn was at most so long before, and who are late."""

NEAR: Final = 32
"""So many in front are added up one by one; those beyond count as the average."""

EXPECTED_S: Final = 0.05
"""A waiter that will ask by itself within this time is not woken."""

MISSED_S: Final = 1.0
"""A waiter that has not asked so long after its turn is woken again: the message may be lost."""

WOKEN: Final = 8
"""At most so many are woken by one batch; each of them causes the next one."""

# The window of the buckets: after a minute they are as full as they get.
LONGEST_PAUSE_S: Final = 60.0

# As of the limiter of one process: see `transport/pacing.py`.
CUT: Final = 0.7
GROWTH_PER_S: Final = 0.05 / 60
LOWEST_FACTOR: Final = 0.1
USED_UP: Final = 0.1
"""A bucket below this part of its size explains a refusal: that does not justify cutting its size."""

_NEVER: Final = 1e18


class Ask(msgspec.Struct, array_like=True, tag="ask"):
    """Asks for a turn; takes a place in the line if it has none. `again`: its turn has come, by our word."""

    id: str
    cost: list[float]
    priority: int
    again: bool


class Cancel(msgspec.Struct, array_like=True, tag="cancel"):
    """Leaves the line."""

    id: str


class Release(msgspec.Struct, array_like=True, tag="release"):
    """Frees a place; `extra` is what the answer cost beyond its estimate, negative for a refund."""

    id: str
    extra: list[float]


class Learn(msgspec.Struct, array_like=True, tag="learn"):
    """What a vendor reports: limits and remaining allowances; -1 where it reports nothing.

    spent, at: of the grant of the request that was answered; [] and 0 if it is not known
    """

    limits: list[float]
    remaining: list[float]
    spent: list[float]
    at: float


class Pause(msgspec.Struct, array_like=True, tag="pause"):
    """Nobody goes for so long."""

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
    """Levels that a process knows better than a store that was away; -1 for none."""

    levels: list[float]


class Bye(msgspec.Struct, array_like=True, tag="bye"):
    """A process ends: its waiters leave, its places are free."""

    member: str


Op = Ask | Cancel | Release | Learn | Pause | Refused | Beat | Cap | Bye


class Batch(msgspec.Struct, array_like=True):
    """Changes of one process, made together and in order.

    member:  the process
    waiting: whether it has waiters that may be in the line
    sizes:   the limits it was given, a minute
    places:  most answers at once; 0 for no limit
    lease_s: a place is free this long after its holder was last heard of
    """

    member: str
    waiting: bool
    sizes: list[float]
    places: int
    lease_s: float
    ops: list[Op]


class Answer(msgspec.Struct, array_like=True):
    """What a batch has led to.

    now:     the store's time
    created: when the state was made; another value than before means that the store has lost it
    members: how many processes share the limits
    levels:  of the buckets
    spent:   what all processes were granted, for `Learn`
    woken:   waiters that should ask again now, of any process
    results: for each op: of Ask, -1 if granted, else seconds until its turn, 1e18 where no time is known; of
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


class Waiting(msgspec.Struct, array_like=True):
    """One in the line, which is sorted by (-priority, number)."""

    id: str
    rank: list[int]
    cost: list[float]
    due: float


class State(msgspec.Struct):
    """Everything that is known under one name.

    given, limits: sizes from the callers and from the vendor; 0 for none
    spent:   sum of all grants and corrections
    queued:  sum of the costs in the line
    factor:  of all sizes, after refusals; it grows back from `cut_at` on
    places:  leases, by id of the grant
    waiting, members: when processes were last heard of
    """

    created: float
    at: float
    given: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    limits: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    levels: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    spent: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    queued: list[float] = msgspec.field(default_factory=lambda: [0.0] * 4)
    line: list[Waiting] = []
    number: int = 0
    pause_until: float = 0.0
    factor: float = 1.0
    cut_at: float = 0.0
    places: dict[str, float] = {}
    waiting: dict[str, float] = {}
    members: dict[str, float] = {}


def apply(state: State, batch: Batch, now: float) -> Answer:
    """Makes the changes of a batch in the state, at this time; a clock that went back stands still."""
    return _Change(state, batch, max(now, state.at)).run()


class _Change:
    def __init__(self, state: State, batch: Batch, now: float) -> None:
        self.state, self.batch, self.now = state, batch, now

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
        """Brings the state to this time."""
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
        """The sizes now: given by callers, lowered by the vendor and after refusals."""
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

    # The line.

    def _ask(self, op: Ask) -> float:
        line = self.state.line
        place = next((place for place, waiting in enumerate(line) if waiting.id == op.id), -1)
        again = op.again and place >= 0  # who was dropped from the line starts again
        if place < 0:
            self.state.number += 1
            waiting = Waiting(op.id, [-op.priority, self.state.number], op.cost, 0.0)
            place = next((n for n, other in enumerate(line) if other.rank > waiting.rank), len(line))
            line.insert(place, waiting)
            _add(self.state.queued, op.cost)
        waiting = line[place]
        wait_s = self._wait_s(waiting, place, self._ahead(place), SLACK_S if again else 0.0)
        if wait_s > 0:
            waiting.due = min(_NEVER, self.now + wait_s)
            return wait_s
        self._leave(op.id)
        for kind in range(4):
            self.state.levels[kind] -= op.cost[kind]
        _add(self.state.spent, op.cost)
        if self.batch.places:
            self.state.places[op.id] = self.now + self.batch.lease_s
        return -1.0

    def _ahead(self, place: int) -> list[float]:
        """What those in front cost, by average beyond the first ones."""
        line, ahead = self.state.line, [0.0] * 4
        for waiting in line[: min(place, NEAR)]:
            _add(ahead, waiting.cost)
        if place > NEAR:
            near = list(ahead)
            for waiting in line[place : place + 1]:
                _add(near, waiting.cost)
            others = len(line) - NEAR - 1
            for kind in range(4):
                each = max(0.0, self.state.queued[kind] - near[kind]) / max(1, others)
                ahead[kind] += each * (place - NEAR)
        return ahead

    def _wait_s(self, waiting: Waiting, place: int, ahead: list[float], slack_s: float) -> float:
        """Seconds until its turn; 0 for now, 1e18 if a place has to come free first."""
        state = self.state
        if self.batch.places and place >= self.batch.places - len(state.places):
            return _NEVER
        wait_s = max(0.0, state.pause_until - self.now)
        for kind, size in enumerate(self.sizes):
            if size > 0:
                own = min(waiting.cost[kind], size)
                need, level = ahead[kind] + own, state.levels[kind]
                missing = max(own, need - slack_s * size / 60) - level
                if missing > 1e-9 * size:  # rounding
                    wait_s = max(wait_s, (need - level) * 60 / size)
        return wait_s

    def _leave(self, id: str) -> None:
        line = self.state.line
        for place, waiting in enumerate(line):
            if waiting.id == id:
                del line[place]
                for kind in range(4):
                    self.state.queued[kind] -= waiting.cost[kind]
                break
        if not line:
            self.state.queued = [0.0] * 4  # what rounding has left

    def _drop_member(self, member: str) -> None:
        for id in [waiting.id for waiting in self.state.line if waiting.id.startswith(f"{member}.")]:
            self._leave(id)

    def _bye(self, member: str) -> None:
        self._drop_member(member)
        self.state.members.pop(member, None)
        self.state.waiting.pop(member, None)
        for id in [place for place in self.state.places if place.startswith(f"{member}.")]:
            del self.state.places[id]

    def _woken(self) -> list[str]:
        """Those in front that may go, and do not know it: something was given back."""
        woken, ahead = [], [0.0] * 4
        for place, waiting in enumerate(self.state.line[:WOKEN]):
            wait_s = self._wait_s(waiting, place, ahead, 0.0)
            unknown = waiting.due >= _NEVER
            if wait_s >= _NEVER or (wait_s > 0 and not unknown):
                break
            if waiting.due > self.now + EXPECTED_S or waiting.due < self.now - MISSED_S:
                waiting.due = self.now
                woken.append(waiting.id)
            _add(ahead, waiting.cost)
        return woken

    # The buckets.

    def _correct(self, extra: list[float]) -> None:
        """Takes what an answer cost beyond its estimate, at most into a debt that a minute pays."""
        state = self.state
        _add(state.spent, extra)
        for kind, size in enumerate(self.sizes):
            if size > 0:
                before = state.levels[kind]
                state.levels[kind] = max(min(size, before - extra[kind]), min(before, -size))

    def _learn(self, op: Learn) -> None:
        """Lowers the buckets to what the vendor reports, less what was granted since the request went."""
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
        """What was granted since a request went, beyond what has refilled: its answer may not count that."""
        if not op.spent:
            return 0.0
        refilled = max(0.0, self.now - op.at) * size / 60
        return max(0.0, self.state.spent[kind] - op.spent[kind] - refilled)

    def _refused(self, op: Refused) -> float:
        """Cuts all sizes after a refusal that no empty bucket explains, once for all who went before."""
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
