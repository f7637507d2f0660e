"""Converts exceptions of aiohttp to typed errors, so that none leaves the package."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import http_exceptions

from llmstream import errors

__all__ = ["login_wanted", "typed_failure"]


# Causes of TLS failures, and their remedies.

CA_VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Environment variables that set custom certificates."""

_TRUST: Final = "Set SSL_CERT_FILE to the CA bundle to trust."

# Verification codes of a rejected certificate; source: OpenSSL, x509_vfy.h
_OF_ANOTHER_NAME: Final = frozenset({62, 64})
_OUT_OF_DATE: Final = frozenset({9, 10})

# OpenSSL's reasons for a first response that is not TLS, by version.
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})


def tls_reason(error: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError) -> str:
    """The cause of a TLS failure, and its remedy."""
    cause = (
        error.certificate_error
        if isinstance(error, aiohttp.ClientConnectorCertificateError)
        else error.os_error
    )
    if isinstance(cause, ssl.SSLCertVerificationError):
        code = cause.verify_code
        return f"{cause.verify_message}. {_remedy(code)}"
    reason = getattr(cause, "reason", None)
    if reason in _NO_TLS:
        return "it does not speak TLS on this port. Write http:// in base_url, or check the port."
    words = reason or getattr(cause, "strerror", None) or type(cause).__name__
    return f"the handshake failed ({words}). {_missing_bundle() or _TRUST}"


def _remedy(code: int) -> str:
    if code in _OF_ANOTHER_NAME:
        return "Check base_url: the certificate is another host's."
    if code in _OUT_OF_DATE:
        return "Check this machine's clock; if it is right, the server has to renew its certificate."
    return _missing_bundle() or _TRUST


def _missing_bundle() -> str:
    """The remedy if an environment variable names a certificate file that does not exist."""
    for name in CA_VARIABLES:
        path = os.environ.get(name)
        if path and not os.path.exists(path):
            return f"The file that {name} names does not exist: {path!r}."
    return ""


# Servers choose these texts; their beginning has the relevant part.
_WORDS_CHARS = 200
_CHECK_PROXY = "Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY in the environment."
_TLS_FAILURES = (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError)
_PORTS = {"http": 80, "https": 443}
_PASSING_STATUS = frozenset({408, 429})


def typed_failure(
    error: BaseException, host: str, *, answered: bool, proxy: str | None = None
) -> errors.LLMStreamError:
    """The typed error for a failure of the connection to `host`.

    answered: whether the headers of the response had arrived
    proxy:    address of the proxy, if any; never shown
    """
    match error:
        case errors.LLMStreamError():
            return error
        case aiohttp.ClientHttpProxyError():
            return _refused_by_proxy(error, host)
        case aiohttp.ClientConnectorError() if proxy is not None and _is_of_proxy(error, proxy):
            return errors.ProxyError(
                f"no connection to the proxy on the way to {host}: {_cause_at_proxy(error)}. {_CHECK_PROXY}",
                retryable=not isinstance(error, _TLS_FAILURES),
            )
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return errors.TLSError(f"no trusted connection to {host}: {tls_reason(error)}")
        case aiohttp.InvalidURL() if proxy is not None and str(error.url) == proxy:
            return errors.ProxyError(f"the proxy on the way to {host} has no usable address. {_CHECK_PROXY}")
        case aiohttp.InvalidURL() | UnicodeError():  # a host name that IDNA cannot encode
            # Its message is the complete URL, with any password or key in it.
            return errors.InvalidRequest(
                f"the address of {host or 'the model'} is not usable. Check base_url."
            )
        case aiohttp.ConnectionTimeoutError() | aiohttp.ServerTimeoutError():
            return errors.DeadlineExceeded(
                f"no connection to {host} in time. Raise Deadlines(connect_s=...) if it is only slow.",
                reason="connect",
            )
        case aiohttp.ClientConnectorDNSError():  # also what a machine without a network gets
            return errors.ConnectionFailed(
                f"cannot connect to {host}: {_words(error)}. Check the network connection and base_url, "
                "and set HTTPS_PROXY if only a proxy reaches the host."
            )
        case aiohttp.ClientConnectorError():
            return errors.ConnectionFailed(
                f"cannot connect to {host}: {_words(error)}. Check base_url and that the server runs."
            )
        case aiohttp.ClientError() | http_exceptions.HttpProcessingError() if _of_encoding(error):
            return errors.DecodeError(f"the compressed body from {host} cannot be read: {_words(error)}")
        case http_exceptions.HttpProcessingError() | aiohttp.ClientResponseError():
            return errors.ProtocolError(f"{host} violates HTTP: {_words(error)}", retryable=True)
        case aiohttp.ClientPayloadError():  # its message quotes another aiohttp error
            return errors.ConnectionLost(f"the connection to {host} closed in the middle of the answer")
        case aiohttp.ClientError() | OSError() | asyncio.IncompleteReadError():
            when = "while it answered" if answered else "before it answered"
            return errors.ConnectionLost(f"the connection to {host} broke {when}: {_words(error)}")
        case _:
            return errors.TransportError(f"the request to {host} failed: {_words(error)}")


def login_wanted(host: str) -> errors.ProxyError:
    """The error of a proxy that requires a login."""
    return errors.ProxyError(
        f"the proxy on the way to {host} requires a login: HTTP 407. Put it into HTTP_PROXY or HTTPS_PROXY, "
        "as in http://user:password@host:port.",
        status=407,
    )


def _refused_by_proxy(error: aiohttp.ClientHttpProxyError, host: str) -> errors.ProxyError:
    """The error of a refused CONNECT; retryable if the proxy failed, not if it refused."""
    if error.status == 407:
        return login_wanted(host)
    return errors.ProxyError(
        f"the proxy did not connect to {host}: HTTP {error.status}. {_CHECK_PROXY}",
        status=error.status,
        retryable=error.status >= 500 or error.status in _PASSING_STATUS,
    )


def _is_of_proxy(error: aiohttp.ClientConnectorError, proxy: str) -> bool:
    """Whether the proxy could not be reached, rather than the server behind it."""
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return True
    at = urlsplit(proxy)
    return error.host == at.hostname and error.port == (at.port or _PORTS[at.scheme])


def _cause_at_proxy(error: aiohttp.ClientConnectorError) -> str:
    """The cause, without the addresses that a system error may contain."""
    if isinstance(error, _TLS_FAILURES):
        return "TLS failed"
    cause = error.os_error
    if isinstance(error, aiohttp.ClientConnectorDNSError) or isinstance(cause, socket.gaierror):
        return "its name is not known"
    return os.strerror(cause.errno) if cause.errno else type(cause).__name__


def _of_encoding(error: BaseException) -> bool:
    """Whether the content coding failed; aiohttp reports that in the message or cause of other errors."""
    causes = (error, error.__cause__, error.__context__)
    if any(isinstance(cause, http_exceptions.ContentEncodingError) for cause in causes):
        return True
    # For a truncated deflate body it reports only the name of the coding.
    return "decode content-encoding" in str(error) or getattr(error, "message", "") == "deflate"


def _words(error: BaseException) -> str:
    """The error's message, without the connection key that aiohttp may print."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error.strerror or error.os_error)
    if isinstance(error, aiohttp.ClientResponseError | http_exceptions.HttpProcessingError):
        return " ".join(str(error.message).split())[:_WORDS_CHARS]  # its str() has the complete address
    words = " ".join(str(error).partition("ConnectionKey(")[0].split())
    return words[:_WORDS_CHARS] or type(error).__name__
