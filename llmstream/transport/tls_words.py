"""Why TLS failed, and what to do about it."""

from __future__ import annotations

import os
import ssl
from typing import Final

import aiohttp

__all__ = ["tls_words"]

CA_VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Where people name their own certificates."""

_TRUST: Final = "Set SSL_CERT_FILE to the CA bundle to trust."

# Codes of a certificate that is not accepted; source: OpenSSL, x509_vfy.h
_OF_ANOTHER_NAME: Final = frozenset({62, 64})
_OUT_OF_DATE: Final = frozenset({9, 10})

_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
"""What OpenSSL names a first answer that is no TLS, by its version."""


def tls_words(error: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError) -> str:
    """The cause, and the remedy for this cause."""
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
    """What to do where a variable names certificates in a file that is not there."""
    for name in CA_VARIABLES:
        path = os.environ.get(name)
        if path and not os.path.exists(path):
            return f"The file that {name} names does not exist: {path!r}."
    return ""
