"""A suspended run as a value: it can be saved, moved to another process, and resumed once."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import msgspec

from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.errors import DecodeError, InvalidRequest
from llmstream.files import read_file, replace_file, taking
from llmstream.first_use import prepared
from llmstream.tools.approval import PendingCall
from llmstream.usage import Usage

__all__ = ["Suspension", "digest_of"]

# Must equal the stored version: the seal is a digest over all fields.
VERSION = 1


class SuspensionTaken(InvalidRequest, FileNotFoundError):
    """Another process took the suspension, or it never existed."""


class Suspension(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a suspended run, without the agent itself. `Agent.resume` continues it, once.

    agent:          the name of the suspended agent
    conversation:   the saved form of its messages, up to and including the waiting calls
    pending:        the waiting calls: its own, then those of sub-agents
    inner:          the suspended runs of sub-agents, by the id of the call that started them
    results:        of finished calls of the same response; these never run again
    inbox:          the saved form of messages sent to the run and not yet to the model; "" for none
    step:           the number of completed steps
    usage_by_model: tokens so far
    cost_estimate:  their estimated cost, by the agent's `price`
    signed:         whether digests are HMACs with the agent's `approval_key`
    expires_at_s:   Unix time after which it is refused; None for never
    seal:           a digest over all fields
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
        """Creates a suspension with its digests.

        raises: InvalidRequest if JSON cannot represent a message
        """
        # Part of every digest, so that a decision for one suspension is invalid for another.
        name = secrets.token_hex(16)
        own = tuple(pending)
        waiting = (*own, *[shown for _, _, shown in _flattened(inner, own)])
        unsealed = cls(
            id=name,
            agent=agent,
            conversation=dump_messages(messages).decode(),
            # One digest per call, so that a web page can return a decision about that call alone.
            pending=tuple([msgspec.structs.replace(p, digest=_call_digest(p, name, key)) for p in waiting]),
            results=tuple(results),
            inner=dict(inner),
            inbox=dump_messages(inbox).decode() if inbox else "",
            step=step,
            usage_by_model=dict(usage_by_model),
            cost_estimate=cost_estimate,
            signed=key is not None,
            # Unix time, because another process or machine compares it.
            expires_at_s=None if ttl_s is None else time.time() + ttl_s,
        )
        return msgspec.structs.replace(unsealed, seal=unsealed._seal(key))

    @property
    def messages(self) -> list[Message]:
        """The conversation; the waiting calls have no results yet."""
        return load_messages(self.conversation)

    @property
    def own(self) -> tuple[PendingCall, ...]:
        """The waiting calls of the run itself, without those of sub-agents.

        raises: InvalidRequest if the others differ from the pending calls of the sub-agents' runs
        """
        count = sum(len(inner.pending) for inner in self.inner.values())
        own, shown = self.pending[: len(self.pending) - count], self.pending[len(self.pending) - count :]
        within = [made for _, _, made in _flattened(self.inner, own)]
        # A person decides about the calls shown; the calls that would run are in the inner suspensions.
        if within != [msgspec.structs.replace(p, digest="") for p in shown]:
            raise InvalidRequest("the suspension was altered: the calls of its sub-agents do not match")
        return own

    @property
    def within(self) -> Iterator[tuple[str, PendingCall, PendingCall]]:
        """The waiting calls of sub-agents: the id of the parent call, the original call, and the call
        as it is shown in `pending`.

        raises: InvalidRequest as `own`
        """
        return _flattened(self.inner, self.own)

    @property
    def unseen(self) -> list[Message]:
        """Messages sent to the run and not yet to the model; the next step sends them."""
        return load_messages(self.inbox) if self.inbox else []

    def check(self, key: bytes | None, *, expires: bool = True) -> None:
        """Verifies digests, signature and, if `expires`, the expiry time.

        raises: InvalidRequest if it was altered, has expired, or was not signed with this key
        """
        # A client could otherwise send an unsigned suspension of its own making to an agent with a key.
        if self.signed != (key is not None):
            how = (
                "signed; pass the same approval_key="
                if self.signed
                else "not signed, but this agent has a key"
            )
            raise InvalidRequest(f"the suspension is {how}")
        genuine = all(_same(p.digest, _call_digest(p, self.id, key)) for p in self.pending)
        if not genuine or not _same(self.seal, self._seal(key)):
            raise InvalidRequest(
                "the suspension was altered after it was created, or signed with another key; it is refused. "
                "Decisions apply only to the arguments that were shown."
            )
        if expires and self.expires_at_s is not None and time.time() > self.expires_at_s:
            raise InvalidRequest("the suspension has expired. Run the agent again.")

    def to_json(self) -> bytes:
        """The saved form."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Decodes the output of `to_json`, in any order of fields; `Agent.resume` verifies the digests.

        raises: DecodeError if it is damaged, not a suspension, of another version, or has missing or
                unknown fields
        """
        try:
            found = msgspec.json.decode(data, type=prepared(cls))
            if found.version != VERSION:
                raise DecodeError(
                    f"the suspension has version {found.version}; this llmstream reads version {VERSION}"
                )
            # The seal covers only decoded fields, so compare here for anything that decoding ignores.
            if msgspec.json.decode(data) != msgspec.json.decode(found.to_json()):
                raise DecodeError(
                    "the suspension is incomplete or was altered after it was saved: fields are missing, "
                    "unknown or written differently. Load the file that save() wrote, or run the agent again."
                )
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise DecodeError(f"not a saved suspension: {error}") from None
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it atomically to a file that only its owner can read; see `Chat.save`."""
        replace_file(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the file that `save` wrote. The file stays, so two processes could resume it; see `take`.

        raises: OSError, DecodeError as `from_json`
        """
        return cls.from_json(read_file(path))

    @classmethod
    def take(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the file and deletes it, so that only one of several processes gets the suspension.

        A file that cannot be decoded stays.

        raises: SuspensionTaken, which is also a FileNotFoundError, if another process was first;
                OSError, also for a symbolic link, whose target would stay; DecodeError as `load`
        """
        try:
            with taking(path) as data:
                return cls.from_json(data)
        except FileNotFoundError:
            raise SuspensionTaken(
                f"there is no suspension in {os.fspath(path)}: it was already resumed, or another process "
                "is resuming it. Each can be taken only once."
            ) from None

    def _seal(self, key: bytes | None) -> str:
        return digest_of(
            key, "llmstream.suspension", msgspec.json.encode(msgspec.structs.replace(self, seal=""))
        )


def _flattened(
    inner: Mapping[str, Suspension], own: Iterable[PendingCall]
) -> Iterator[tuple[str, PendingCall, PendingCall]]:
    """The waiting calls of sub-agents: id of the parent call, original call, call as shown in the parent.

    Models choose ids, and may put a "/" into one; a name in use gets a number, so that a result belongs
    to exactly one call.

    own: the calls of the parent run, whose ids do not change
    """
    # The run's own ids first: ids of calls in the history cannot change.
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
    # An altered digest may contain any characters, lone surrogates too.
    return hmac.compare_digest(digest.encode("utf-8", "surrogatepass"), expected.encode())


def _call_digest(pending: PendingCall, suspension_id: str, key: bytes | None) -> str:
    return digest_of(
        key,
        suspension_id,
        pending.agent,
        pending.approval_id,
        pending.call_id,
        pending.name,
        pending.arguments,
    )


# Digests: a decision holds only for the arguments that were shown.

_encode = msgspec.json.Encoder().encode


def digest_of(key: bytes | None, *fields: str | bytes) -> str:
    """An HMAC-SHA256 over the fields, or without a key a SHA-256, as hexadecimal digits.

    Only the HMAC proves that the fields were written by a holder of the key.
    """
    # As one JSON value: concatenated texts could be split differently with the same digest.
    data = _encode([f if isinstance(f, str) else hashlib.sha256(f).hexdigest() for f in fields])
    if key is None:
        return hashlib.sha256(data).hexdigest()
    return hmac.new(key, data, hashlib.sha256).hexdigest()
