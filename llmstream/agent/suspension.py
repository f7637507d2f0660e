"""A run that waits for a person, as a value: saved, moved to another process, resumed once."""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import msgspec

from llmstream.agent.approvals import digest_of
from llmstream.agent.file_lock import taking
from llmstream.chats.content import ToolResult, read_whole, write_whole
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.errors import DecodeError, InvalidRequest
from llmstream.tools import PendingCall
from llmstream.usage import Usage

__all__ = ["Suspension"]

VERSION = 1


class SuspensionTaken(InvalidRequest, FileNotFoundError):
    """A suspension that another process has taken, or that never was."""


class Suspension(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that going on takes, but for the agent itself. `Agent.resume` takes it, once.

    agent:          the name of the agent that was suspended
    conversation:   the saved form of its messages, up to and with the calls that wait
    pending:        the calls that wait, those of sub-agents behind its own
    inner:          the suspended runs of sub-agents, by the id of the call that asked
    results:        of the calls of the same answer that are done; these never run again
    inbox:          the saved form of messages sent to the run that the model has not seen; "" for none
    step:           how many steps are over
    usage_by_model: tokens so far
    cost_estimate:  what they may have cost, by the agent's `price`
    signed:         whether digests are HMACs made with the agent's `approval_key`
    expires_at_s:   Unix time after which it is refused; None for never
    seal:           a digest over all of it
    """

    version: int = VERSION
    id: str
    agent: str = ""
    conversation: str
    pending: tuple[PendingCall, ...]
    results: tuple[ToolResult, ...] = ()
    inner: dict[str, Suspension] = msgspec.field(default_factory=dict)
    inbox: str = ""
    step: int = 0
    usage_by_model: dict[str, Usage] = msgspec.field(default_factory=dict)
    cost_estimate: float | None = None
    signed: bool = False
    expires_at_s: float | None = None
    seal: str = ""

    @classmethod
    def sealed(
        cls,
        messages: Iterable[Message],
        pending: Iterable[PendingCall],
        results: Iterable[ToolResult],
        *,
        inner: Mapping[str, Suspension] = {},
        inbox: Sequence[Message] = (),
        agent: str,
        step: int,
        usage_by_model: dict[str, Usage],
        cost_estimate: float | None,
        key: bytes | None,
        ttl_s: float | None,
    ) -> Self:
        """A new one, with its digests.

        raises: InvalidRequest where JSON cannot hold what a message holds
        """
        name = secrets.token_hex(16)
        own = tuple(pending)
        waiting = (*own, *[shown for _, _, shown in _flattened(inner, own)])
        open_one = cls(
            id=name,
            agent=agent,
            conversation=dump_messages(messages).decode(),
            pending=tuple([msgspec.structs.replace(p, digest=_bound(p, name, key)) for p in waiting]),
            results=tuple(results),
            inner=dict(inner),
            inbox=dump_messages(inbox).decode() if inbox else "",
            step=step,
            usage_by_model=dict(usage_by_model),
            cost_estimate=cost_estimate,
            signed=key is not None,
            expires_at_s=None if ttl_s is None else time.time() + ttl_s,
        )
        return msgspec.structs.replace(open_one, seal=open_one._seal(key))

    @property
    def messages(self) -> list[Message]:
        """The conversation; its last calls have no results yet."""
        return load_messages(self.conversation)

    @property
    def own(self) -> tuple[PendingCall, ...]:
        """The calls that wait and are no sub-agent's.

        raises: InvalidRequest where the others are not those that the sub-agents' runs wait for
        """
        count = sum(len(inner.pending) for inner in self.inner.values())
        own, shown = self.pending[: len(self.pending) - count], self.pending[len(self.pending) - count :]
        within = [made for _, _, made in _flattened(self.inner, own)]
        if within != [msgspec.structs.replace(p, digest="") for p in shown]:
            raise InvalidRequest("the suspension was altered: it shows other calls of its sub-agents")
        return own

    @property
    def within(self) -> Iterator[tuple[str, PendingCall, PendingCall]]:
        """The calls of sub-agents: the call that asked the agent, the call there, and how it is shown here.

        raises: InvalidRequest as `own`
        """
        return _flattened(self.inner, self.own)

    @property
    def unseen(self) -> list[Message]:
        """Messages sent to the run that the model has not seen: it will, when the run goes on."""
        return load_messages(self.inbox) if self.inbox else []

    def check(self, key: bytes | None) -> None:
        """Makes sure that this is what was suspended.

        raises: InvalidRequest where it was altered, has expired, or was not signed with this key
        """
        if self.signed != (key is not None):
            how = (
                "signed; pass the same approval_key="
                if self.signed
                else "not signed, but this agent has a key"
            )
            raise InvalidRequest(f"the suspension is {how}")
        bound = all(_same(p.digest, _bound(p, self.id, key)) for p in self.pending)
        if not bound or not _same(self.seal, self._seal(key)):
            raise InvalidRequest(
                "the suspension was altered after it was made, or signed with another key; it is refused. "
                "Decisions hold for the arguments that were shown."
            )
        if self.expires_at_s is not None and time.time() > self.expires_at_s:
            raise InvalidRequest("the suspension has expired. Run the agent again.")

    def to_json(self) -> bytes:
        """The saved form."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """What `to_json` gave, in any order of fields. Whether it is genuine, `Agent.resume` finds out.

        raises: DecodeError where it is damaged, something else, of a newer version, or has a field too
                many or too few
        """
        try:
            found = msgspec.json.decode(data, type=cls)
            if found.version != VERSION:
                raise DecodeError(f"a suspension of version {found.version}; this llmstream reads {VERSION}")
            # The seal is made of what was understood, so what the reader passes over is compared here.
            if msgspec.json.decode(data) != msgspec.json.decode(found.to_json()):
                raise DecodeError(
                    "the suspension is incomplete or was altered after it was saved: fields are missing, "
                    "unknown or written differently. Load the file that save() wrote, or run the agent again."
                )
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise DecodeError(f"not a saved suspension: {error}") from None
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file that only its owner can read, whole or not at all; see `Chat.save`."""
        write_whole(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What `save` wrote; the file stays. Two processes that load it can both resume it: see `take`.

        raises: OSError, DecodeError as `from_json`
        """
        return cls.from_json(read_whole(path))

    @classmethod
    def take(cls, path: str | os.PathLike[str]) -> Self:
        """The same, and the file is gone: of several processes that try, one has it.

        A file that cannot be read stays where it is.

        raises: SuspensionTaken, which is a FileNotFoundError too, where another was first; OSError,
                also for a symbolic link, whose target would stay; DecodeError as `load`
        """
        try:
            with taking(path) as data:
                return cls.from_json(data)
        except FileNotFoundError:
            raise SuspensionTaken(
                f"there is no suspension in {os.fspath(path)}: it was resumed already, or another process "
                "is doing so. Each is taken once."
            ) from None

    def _seal(self, key: bytes | None) -> str:
        return digest_of(
            key, "llmstream.suspension", msgspec.json.encode(msgspec.structs.replace(self, seal=""))
        )


def _flattened(
    inner: Mapping[str, Suspension], own: Iterable[PendingCall]
) -> Iterator[tuple[str, PendingCall, PendingCall]]:
    """The calls that sub-agents wait for: who asked, the call there, and as the run above shows it.

    Models choose ids, and may put a "/" into one; a name that is taken gets a number, so that a result
    answers one call.

    own: the calls of the run above, whose ids stand as they are
    """
    used = {pending.call_id for pending in own}
    copies: dict[str, int] = {}
    for call_id, suspension in inner.items():
        for pending in suspension.pending:
            name = wanted = f"{call_id}/{pending.call_id}"
            while name in used:
                copies[wanted] = number = copies.get(wanted, 1) + 1
                name = f"{wanted}#{number}"
            used.add(name)
            agent = pending.agent or suspension.agent
            yield (
                call_id,
                pending,
                msgspec.structs.replace(pending, call_id=name, agent=agent, digest=""),
            )


def _same(digest: str, expected: str) -> bool:
    """Whether a digest is the one expected; what was altered may hold any characters."""
    return hmac.compare_digest(digest.encode("utf-8", "surrogatepass"), expected.encode())


def _bound(pending: PendingCall, suspension_id: str, key: bytes | None) -> str:
    return digest_of(
        key,
        suspension_id,
        pending.agent,
        pending.approval_id,
        pending.call_id,
        pending.name,
        pending.arguments,
    )
