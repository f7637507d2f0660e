"""What a TLS failure is said to be, and the remedy for it."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from llmstream.errors import TLSError
from llmstream.transport.failures import typed_failure

KEY = ConnectionKey("vendor.example", 443, True, True, None, None, None)


@pytest.fixture(autouse=True)
def no_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def refused(code: int, message: str) -> str:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    error.verify_code, error.verify_message = code, message
    typed = typed_failure(
        aiohttp.ClientConnectorCertificateError(KEY, error), "vendor.example", answered=False
    )
    assert type(typed) is TLSError
    return typed.message


def test_an_unknown_authority() -> None:
    message = refused(20, "unable to get local issuer certificate")
    assert "unable to get local issuer certificate" in message
    assert "Set SSL_CERT_FILE" in message


def test_a_certificate_of_another_host() -> None:
    message = refused(62, "Hostname mismatch, certificate is not valid for 'vendor.example'.")
    assert "base_url" in message
    assert "SSL_CERT_FILE" not in message


def test_a_certificate_out_of_date() -> None:
    message = refused(10, "certificate has expired")
    assert "clock" in message
    assert "SSL_CERT_FILE" not in message


def test_a_bundle_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    message = refused(20, "unable to get local issuer certificate")
    assert "SSL_CERT_FILE names does not exist" in message
    assert "missing.pem" in message


@pytest.mark.parametrize("reason", ["WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"])
def test_a_server_that_speaks_no_tls(reason: str) -> None:
    error = ssl.SSLError(1, f"[SSL: {reason}] it failed")
    error.reason = reason
    typed = typed_failure(aiohttp.ClientConnectorSSLError(KEY, error), "vendor.example", answered=False)
    assert "does not speak TLS" in str(typed)
    assert "SSL_CERT_FILE" not in str(typed)
