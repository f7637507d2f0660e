"""What aiohttp raises, as our typed errors: nothing of aiohttp leaves the package bare."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import http_exceptions

from llmstream import errors

__all__ = ["typed_failure"]

_WORDS_CHARS = 200


def typed_failure(error: BaseException, host: str, *, answered: bool) -> errors.LLMStreamError:
    """The typed error for whatever went wrong on the way to `host`.

    answered: whether the answer's headers had come
    """
    match error:
        case errors.LLMStreamError():
            return error
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return errors.TLSError(
                f"no trusted connection to {host}: {error}. Set SSL_CERT_FILE to the CA bundle to trust."
            )
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return errors.ProxyError(
                f"the proxy did not connect to {host}: {_words(error)}. "
                "Check HTTPS_PROXY and NO_PROXY in the environment."
            )
        case aiohttp.InvalidURL() | UnicodeError():  # of a name that IDNA does not know
            return errors.InvalidRequest(f"not a usable address: {error}. Check base_url.")
        case aiohttp.ConnectionTimeoutError() | aiohttp.ServerTimeoutError():
            return errors.DeadlineExceeded(
                f"no connection to {host} in time. Raise Deadlines(connect_s=...) if it is only slow.",
                reason="connect",
            )
        case aiohttp.ClientConnectorError():
            return errors.ConnectionFailed(
                f"cannot connect to {host}: {_words(error)}. Check base_url and that the server runs."
            )
        case aiohttp.ClientError() | http_exceptions.HttpProcessingError() if _of_encoding(error):
            return errors.DecodeError(f"the compressed body from {host} cannot be read: {_words(error)}")
        case http_exceptions.HttpProcessingError() | aiohttp.ClientResponseError():
            return errors.ProtocolError(f"{host} broke the rules of HTTP: {_words(error)}", retryable=True)
        case aiohttp.ClientPayloadError():  # its own words quote another of aiohttp's errors
            return errors.ConnectionLost(f"the connection to {host} closed in the middle of the answer")
        case aiohttp.ClientError() | OSError() | asyncio.IncompleteReadError():
            when = "while it answered" if answered else "before it answered"
            return errors.ConnectionLost(f"the connection to {host} broke {when}: {_words(error)}")
        case _:
            return errors.TransportError(f"the request to {host} failed: {_words(error)}")


def _of_encoding(error: BaseException) -> bool:
    """Whether the content coding is at fault; aiohttp says so in the words or the cause of other errors."""
    causes = (error, error.__cause__, error.__context__)
    if any(isinstance(cause, http_exceptions.ContentEncodingError) for cause in causes):
        return True
    # Of a deflate that was cut it says no more than the name.
    return "decode content-encoding" in str(error) or getattr(error, "message", "") == "deflate"


def _words(error: BaseException) -> str:
    """The error's own words, without the connection key that aiohttp may print."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error.strerror or error.os_error)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"HTTP {error.status}"
    if isinstance(error, aiohttp.ClientResponseError | http_exceptions.HttpProcessingError):
        return " ".join(str(error.message).split())[:_WORDS_CHARS]  # its str() has the whole address
    words = " ".join(str(error).partition("ConnectionKey(")[0].split())
    return words[:_WORDS_CHARS] or type(error).__name__
