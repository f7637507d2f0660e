"""Every exception the package raises, and their wire form.

LLMStreamError
├── CallerError            the caller's mistake; no request was sent
│   ├── InvalidRequest      the request contradicts itself or cannot be encoded
│   ├── MissingKey          no API key was found
│   └── Unsupported         this provider or dialect cannot do it
├── ProviderError           the vendor's error
│   ├── BadRequest          400, 413, 422: the vendor refuses the request as it stands
│   │   └── ContextTooLong  the prompt does not fit the model
│   ├── AuthenticationError 401: the key is wrong
│   ├── PermissionDenied    402, 403: the key lacks a permission, or the account has no credit
│   ├── NotFound            404: no such model or path
│   ├── RateLimited         429: too many requests, or the quota is used up
│   ├── Overloaded          503, 529: the vendor is busy
│   ├── ContentFiltered     the vendor's filter refused prompt or answer
│   └── ServerError         408, 409, 5xx: the vendor failed
├── TransportError          the connection failed
│   ├── ConnectionFailed    no connection could be opened
│   ├── TLSError            the certificate or the handshake failed
│   ├── ProxyError          the proxy refused
│   ├── ConnectionLost      an open connection broke
│   ├── DeadlineExceeded    one of the Deadlines passed; `reason` names it
│   ├── RedirectRefused     the server pointed elsewhere; keys do not follow
│   └── LimitsUnavailable   the store of a shared limiter cannot be reached
├── StreamError             the body of the response is invalid or incomplete
│   ├── IncompleteStream    it ended before the vendor marked the response complete
│   ├── DecodeError         a known event could not be read
│   ├── NotAStream          the response is not an event stream
│   ├── LimitExceeded       a line, frame, event, argument or run grew past its cap
│   ├── InvalidOutput       the answer does not fit the requested type
│   └── ProtocolError       HTTP or framing rules were broken
├── ToolError               a tool call failed
│   ├── InvalidToolInput    the arguments do not fit the tool's schema
│   ├── UnknownTool         the model called a tool that was not offered
│   └── ToolTimeout         the tool exceeded its timeout
├── LogError                an event log (`llmstream.log`) refused a request or failed
│   ├── RunNotFound         the log has no such run, or has deleted its events
│   ├── RunExists           the id of the run is in use
│   ├── ProducerLost        the process that produced the run died
│   ├── Fenced              another process has taken the run over
│   ├── Stopped             the run was stopped on request
│   ├── ReplayTooLong       the reader is further behind than it allows; `tail` has the end
│   ├── LogLost             the store lost events that it had confirmed
│   └── LogUnavailable      the store cannot be reached
├── Interrupted             a step that must not run twice had begun when its process died
├── Lost                    another process has taken a durable run over
└── RunSuspended            a run of an agent waits for a decision, or for results from elsewhere
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from llmstream.short_forms import fields, quoted

if TYPE_CHECKING:
    from llmstream.usage import Usage

__all__ = [
    "AuthenticationError",
    "BadRequest",
    "CallerError",
    "ConnectionFailed",
    "ConnectionLost",
    "ContentFiltered",
    "ContextTooLong",
    "DeadlineExceeded",
    "DecodeError",
    "ErrorInfo",
    "Fenced",
    "IncompleteStream",
    "Interrupted",
    "InvalidOutput",
    "InvalidRequest",
    "InvalidToolInput",
    "LLMStreamError",
    "LimitExceeded",
    "LimitsUnavailable",
    "LogError",
    "LogLost",
    "LogUnavailable",
    "Lost",
    "MissingKey",
    "NotAStream",
    "NotFound",
    "Overloaded",
    "PermissionDenied",
    "ProducerLost",
    "ProtocolError",
    "ProviderError",
    "ProxyError",
    "RateLimited",
    "RedirectRefused",
    "ReplayTooLong",
    "RunExists",
    "RunNotFound",
    "RunSuspended",
    "ServerError",
    "Stopped",
    "StreamError",
    "TLSError",
    "ToolError",
    "ToolTimeout",
    "TransportError",
    "UnknownTool",
    "Unsupported",
    "error_from_info",
]


class ErrorInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, repr_omit_defaults=True):
    """An error as a value: what an `error` event carries.

    code:     stable and ours, one for each class of the tree, such as "rate-limited"
    message:  includes the vendor's message
    status:   HTTP status, also if it arrived inside a 200
    reason:   the finer cause: the vendor's own code, or the name of the deadline
    param:    the field of the request that the vendor blames, by its name for it
    details:  other fields of the vendor's error, verbatim (OpenAI: `misalignment`)
    """

    code: str
    message: str
    retryable: bool
    provider: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    request_id: str | None = None
    reason: str | None = None
    param: str | None = None
    details: dict[str, Any] | None = None

    @property
    def public_message(self) -> str:
        """A public message: made from the code, without hosts and the vendor's message."""
        sentence = _PUBLIC.get(self.code, "The model's service failed. Try again.")
        if self.retry_after_s is None:
            return sentence
        return sentence.replace("later", f"in {max(1, round(self.retry_after_s))} s")


# Ordered as the classes below. Codes of the application's own errors share one message: a visitor can do
# nothing about a missing key, and should not learn of it.
_PUBLIC: Final = {
    "invalid-request": "The request is not valid.",
    "bad-request": "The model does not accept this request.",
    "context-too-long": "The conversation is too long for the model. Start a new one, or shorten it.",
    "rate-limited": "The model is busy. Try again later.",
    "overloaded": "The model is busy. Try again later.",
    "content-filtered": "The model's content filter withheld the response.",
    "caller-error": "This service is not set up correctly.",
    "missing-key": "This service is not set up correctly.",
    "unsupported": "This service is not set up correctly.",
    "authentication": "This service is not set up correctly.",
    "permission-denied": "This service is not set up correctly.",
    "not-found": "This service is not set up correctly.",
    "connection-failed": "The model cannot be reached. Try again later.",
    "tls-error": "The model cannot be reached.",
    "proxy-error": "The model cannot be reached.",
    "redirect-refused": "The model cannot be reached.",
    "limits-unavailable": "The model cannot be reached. Try again later.",
    "connection-lost": "The connection to the model broke. The response is incomplete.",
    "incomplete-stream": "The response broke off. It is incomplete.",
    "deadline-exceeded": "The model took too long.",
    "limit-exceeded": "The response grew past a limit.",
    "invalid-output": "The model gave no valid response.",
    "tool-error": "A tool failed.",
    "invalid-tool-input": "A tool failed.",
    "unknown-tool": "A tool failed.",
    "tool-timeout": "A tool took too long.",
    "run-suspended": "The run waits for a decision.",
    "producer-lost": "This response was interrupted by a restart. It is incomplete.",
    "stopped": "The response was stopped.",
    "fenced": "Another process has continued this response.",
    "run-exists": "This response has been started already.",
    "run-not-found": "This response is no longer stored.",
    "replay-too-long": "This response is too long to be read again.",
    "log-lost": "A part of this response was lost.",
    "log-unavailable": "The response cannot be read now. Try again later.",
    "log-error": "The response cannot be read now. Try again later.",
}

# One line of a log or a notebook.
_REPR_CHARS: Final = 200
_REPR_FIELDS: Final = ("provider", "status", "reason", "param", "retry_after_s", "request_id")

# Maps codes to classes, to restore errors from events.
_BY_CODE: dict[str, type[LLMStreamError]] = {}


class LLMStreamError(Exception):
    """Base of everything the package raises. Its fields are those of `ErrorInfo`, and five more.

    message:  what happened, and what to do next
    provider: name of the provider
    status:   HTTP status of the vendor's response
    retryable: whether the same request may succeed later; by default that of the class
    retry_after_s: the wait that the vendor asks for
    request_id: the vendor's id of the HTTP request
    reason:   the vendor's own code of the error, or which limit was passed
    param:    the field of the request that is invalid
    details:  the rest of the vendor's error object
    partial:  the message as far as it came (a `chats.Message`), or None
    usage:    tokens used as far as the vendor reported them
    attempts: how often the request was sent
    tried:    where a chain of models was asked: each that failed ("provider:model"), and why, in order
    provider_metadata: the vendor's other metadata of the response; that of the finish too
    """

    code: ClassVar[str] = "error"
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        status: int | None = None,
        retryable: bool | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        reason: str | None = None,
        param: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.status = status
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.reason = reason
        self.param = param
        self.details = details
        # Any, because messages import this module.
        self.partial: Any = None
        self.usage: Usage | None = None
        self.attempts = 1
        self.tried: tuple[tuple[str, ErrorInfo], ...] = ()
        self.provider_metadata: dict[str, dict[str, Any]] | None = None

    def __init_subclass__(cls, code: str | None = None, retryable: bool | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code
            _BY_CODE[code] = cls
        if retryable is not None:
            cls.default_retryable = retryable

    def __str__(self) -> str:
        where = f"{self.provider}: " if self.provider else ""
        facts = []
        if self.status is not None:
            facts.append(f"HTTP {self.status}")
        if self.retry_after_s is not None:
            facts.append(f"retry after {self.retry_after_s:g} s")
        if self.request_id:
            facts.append(f"request {self.request_id}")
        return f"{where}{self.message}" + (f" ({', '.join(facts)})" if facts else "")

    def __repr__(self) -> str:
        """One line: the message, cut, and where it came from; `details` and `partial` are left out."""
        facts = [quoted(str(self.message), _REPR_CHARS), *fields(self, _REPR_FIELDS)]
        return f"{type(self).__name__}({', '.join(facts)})"

    @property
    def public_message(self) -> str:
        """A public message: made from the code, without hosts and the vendor's message."""
        return self.info.public_message

    @property
    def info(self) -> ErrorInfo:
        """The same error as a value, without partial and usage."""
        return ErrorInfo(
            code=self.code,
            message=self.message,
            provider=self.provider,
            status=self.status,
            retryable=self.retryable,
            retry_after_s=self.retry_after_s,
            request_id=self.request_id,
            reason=self.reason,
            param=self.param,
            details=self.details,
        )


def error_from_info(info: ErrorInfo) -> LLMStreamError:
    """The exception that an `ErrorInfo` describes; an unknown code gives the base class."""
    return _BY_CODE.get(info.code, LLMStreamError)(
        info.message,
        provider=info.provider,
        status=info.status,
        retryable=info.retryable,
        retry_after_s=info.retry_after_s,
        request_id=info.request_id,
        reason=info.reason,
        param=info.param,
        details=info.details,
    )


class CallerError(LLMStreamError, code="caller-error"):
    """The caller's fault."""


class InvalidRequest(CallerError, ValueError, code="invalid-request"):
    """The request contradicts itself or cannot be encoded. A ValueError too."""


class MissingKey(CallerError, code="missing-key"):
    """No API key was given and none is in the environment."""


class Unsupported(CallerError, code="unsupported"):
    """This provider, dialect or installation does not support the request."""


class ProviderError(LLMStreamError, code="provider-error"):
    """The vendor answered with an error."""


class BadRequest(ProviderError, code="bad-request"):
    """The vendor refuses the request as it stands (400, 413, 422)."""


class ContextTooLong(BadRequest, code="context-too-long"):
    """The prompt does not fit into the model's context."""


class AuthenticationError(ProviderError, code="authentication"):
    """The vendor does not accept the key (401)."""


class PermissionDenied(ProviderError, code="permission-denied"):
    """The key may not do this, or the account cannot pay (402, 403)."""


class NotFound(ProviderError, code="not-found"):
    """No such model, deployment or path (404)."""


class RateLimited(ProviderError, code="rate-limited", retryable=True):
    """Too many requests or tokens, or the quota is used up (429)."""


class Overloaded(ProviderError, code="overloaded", retryable=True):
    """The vendor is busy (503, 529)."""


class ContentFiltered(ProviderError, code="content-filtered"):
    """The vendor's content filter refused."""


# Also 408 and 409, as in the SDKs of OpenAI and Anthropic.
class ServerError(ProviderError, code="server-error", retryable=True):
    """The vendor failed (408, 409, 5xx)."""


class TransportError(LLMStreamError, code="transport-error", retryable=True):
    """The network failed."""


class ConnectionFailed(TransportError, ConnectionError, code="connection-failed"):
    """No connection could be opened: DNS, refusal, no route. A ConnectionError too."""


# Not retryable, like ProxyError and RedirectRefused: a retry would fail in the same way.
class TLSError(TransportError, code="tls-error", retryable=False):
    """The certificate or the handshake failed."""


class ProxyError(TransportError, code="proxy-error", retryable=False):
    """The proxy refused or could not be used."""


class ConnectionLost(TransportError, ConnectionError, code="connection-lost"):
    """The connection broke after it stood. A ConnectionError too."""


class DeadlineExceeded(TransportError, TimeoutError, code="deadline-exceeded"):
    """One of the `Deadlines` passed; `reason` names it. A TimeoutError too."""


class RedirectRefused(TransportError, code="redirect-refused", retryable=False):
    """The server pointed elsewhere; credentials do not follow."""


class LimitsUnavailable(TransportError, ConnectionError, code="limits-unavailable"):
    """The store of a shared limiter cannot be reached, or was closed. A ConnectionError too."""


class StreamError(LLMStreamError, code="stream-error"):
    """The body was not of this dialect."""


class IncompleteStream(StreamError, code="incomplete-stream", retryable=True):
    """The body ended before the vendor marked the response complete."""


class DecodeError(StreamError, code="decode-error"):
    """A known event could not be read."""


class NotAStream(StreamError, code="not-a-stream"):
    """The answer is no event stream at all."""


class LimitExceeded(StreamError, code="limit-exceeded"):
    """A line, frame, event or argument grew past its cap; or a run its steps (`reason` "max_steps")."""


class InvalidOutput(StreamError, code="invalid-output"):
    """The answer is not of the type that was asked for; `partial.text` has its text."""


class ProtocolError(StreamError, code="protocol-error"):
    """The rules of HTTP or of the framing were broken."""


class ToolError(LLMStreamError, code="tool-error"):
    """Something about a tool call."""


class InvalidToolInput(ToolError, code="invalid-tool-input"):
    """The arguments do not fit the tool's schema."""


class UnknownTool(ToolError, code="unknown-tool"):
    """The model called a tool that was not offered."""


class ToolTimeout(ToolError, code="tool-timeout"):
    """The tool took longer than it may."""


class LogError(LLMStreamError, code="log-error"):
    """Something about an event log."""


class RunNotFound(LogError, code="run-not-found"):
    """The log has no such run; `reason` is "expired" where it has deleted the run's events."""


class RunExists(LogError, code="run-exists"):
    """The id of the run is in use; `reason` is the state of the run that has it, "open" while it runs."""


class ProducerLost(LogError, code="producer-lost", retryable=True):
    """The process that produced the run died before the end; a reader has closed the run."""


class Fenced(LogError, code="fenced"):
    """Another process has taken the run over, so this one cannot write to it any more."""


class Stopped(LogError, code="stopped"):
    """The run was stopped on request; `reason` names who asked."""


class ReplayTooLong(LogError, code="replay-too-long"):
    """A reader is further behind than its `max_replay`.

    tail: the last sequence number of the run; the reader can continue after it
    """

    @property
    def tail(self) -> int:
        """The last sequence number of the run."""
        tail: int = (self.details or {}).get("tail", -1)
        return tail


class LogLost(LogError, code="log-lost"):
    """The store lost events that it had confirmed, such as a Redis that was killed."""


class LogUnavailable(LogError, ConnectionError, code="log-unavailable", retryable=True):
    """The store of the event log cannot be reached, or does not accept writes. A ConnectionError too."""


class Interrupted(LLMStreamError, code="interrupted"):
    """A step had begun in a process that died, and must not run twice; `reason` is its key."""


class Lost(LLMStreamError, code="lost"):
    """Another process has taken a durable run over, so this one may not write to it any more."""


class RunSuspended(LLMStreamError, code="run-suspended"):
    """A run waits for a decision or for results, and who asked for its answer cannot give them.

    suspension: the run as a value, a `Suspension`, to be resumed
    """

    suspension: Any = None
