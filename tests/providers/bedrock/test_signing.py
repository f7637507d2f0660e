"""Signatures, against an implementation of our own that is checked with AWS's published vector."""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import os
import re
import sys
from urllib.parse import quote, urlsplit

import pytest

from llmstream.errors import MissingKey, Unsupported
from llmstream.exchange import HttpRequest
from llmstream.providers.bedrock import signing
from llmstream.providers.bedrock.signing import credentials_of, sign, sign_for_bedrock, signing_for

needs_botocore = pytest.mark.skipif(
    importlib.util.find_spec("botocore") is None, reason="botocore is not installed"
)

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ENV = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
URL = "https://bedrock-runtime.eu-west-3.amazonaws.com/model/us.anthropic.claude-x-v1%3A0/converse-stream"
BODY = b'{"messages":[]}'


def reference(method, url, headers, body, *, date, region, service, secret=SECRET, encode_path=True):
    """The signature of a request. source: "Create a signed AWS API request", IAM user guide"""

    def step(key, text):
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    parts = urlsplit(url)
    path = quote(parts.path, safe="/-_.~") if encode_path else parts.path
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    digest = hashlib.sha256(body).hexdigest()
    canonical = "\n".join((method, path, parts.query, lines, names, digest))
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", date, scope, hashed))
    key = f"AWS4{secret}".encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = step(key, part)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def fields(http):
    """What the authorization header says."""
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=([0-9a-f]{64})",
        http.headers["authorization"],
    )
    assert found
    return found.groups()


def check(http, region, secret=SECRET):
    credential, names, signature = fields(http)
    date = http.headers["x-amz-date"]
    assert credential.endswith(f"/{date[:8]}/{region}/bedrock/aws4_request")
    headers = {name: http.headers.get(name, urlsplit(http.url).netloc) for name in names.split(";")}
    assert signature == reference(
        http.method, http.url, headers, http.body, date=date, region=region, service="bedrock", secret=secret
    )
    return names.split(";")


def test_reference_matches_published_vector():
    headers = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z"}
    signature = reference(
        "GET", "https://example.amazonaws.com/", headers, b"",
        date="20150830T123600Z", region="us-east-1", service="service",
    )  # fmt: skip
    assert signature == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"


@needs_botocore
def test_path_is_signed_encoded_twice():
    http = HttpRequest(URL, BODY, {"content-type": "application/json", "accept": "x", "user-agent": "y"})
    signed = sign(http, region="eu-west-3", env=ENV)
    assert check(signed, "eu-west-3") == ["content-type", "host", "x-amz-date"]
    assert (signed.url, signed.body, signed.method) == (http.url, http.body, http.method)
    assert signed.headers["accept"] == "x"
    single = reference(
        "POST", URL, {"host": urlsplit(URL).netloc}, BODY,
        date=signed.headers["x-amz-date"], region="eu-west-3", service="bedrock", encode_path=False,
    )  # fmt: skip
    assert single != fields(signed)[2]


@needs_botocore
def test_arn_and_port_are_signed_as_sent():
    url = "http://127.0.0.1:8123/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fa.b/converse-stream"
    assert "host" in check(sign(HttpRequest(url, BODY), region="us-east-1", env=ENV), "us-east-1")


@needs_botocore
def test_a_session_token_is_signed_too():
    signed = sign(HttpRequest(URL, BODY), region="eu-west-3", env={**ENV, "AWS_SESSION_TOKEN": "session-1"})
    assert signed.headers["x-amz-security-token"] == "session-1"
    assert "x-amz-security-token" in check(signed, "eu-west-3")
    assert "session-1" not in repr(signed)
    assert SECRET not in repr(signed) + str(signed.headers)


@needs_botocore
def test_credentials_may_be_given():
    from botocore.credentials import ReadOnlyCredentials

    signed = sign(
        HttpRequest(URL, BODY), region="eu-west-3", env={}, credentials=ReadOnlyCredentials("A", "S", None)
    )
    assert fields(signed)[0].startswith("A/")
    check(signed, "eu-west-3", secret="S")


@needs_botocore
def test_the_region_is_that_of_the_address():
    check(sign_for_bedrock(HttpRequest(URL, BODY), {**ENV, "AWS_REGION": "us-west-2"}), "eu-west-3")
    local = HttpRequest("http://localhost:9/model/m/converse-stream", BODY)
    check(sign_for_bedrock(local, {**ENV, "AWS_REGION": "us-west-2"}), "us-west-2")


@needs_botocore
@pytest.mark.parametrize("env", [{}, {"AWS_ACCESS_KEY_ID": KEY}, {"AWS_SECRET_ACCESS_KEY": SECRET}])
def test_missing_credentials_name_variables(env):
    with pytest.raises(MissingKey, match="AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID"):
        credentials_of(env)


@pytest.fixture
def own_environment(monkeypatch, tmp_path):
    """The process's environment with nothing of AWS but two files, and no network."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    signing._session_credentials.cache_clear()
    yield tmp_path
    signing._session_credentials.cache_clear()


@needs_botocore
def test_shared_file_profile_is_used(own_environment, monkeypatch):
    (own_environment / "credentials").write_text(
        "[default]\naws_access_key_id=D\naws_secret_access_key=S\n"
        "[work]\naws_access_key_id=W\naws_secret_access_key=S\naws_session_token=T\n"
    )
    assert credentials_of(os.environ).access_key == "D"
    monkeypatch.setenv("AWS_PROFILE", "work")
    found = credentials_of(os.environ)
    assert (found.access_key, found.token) == ("W", "T")


@needs_botocore
def test_unknown_profile_is_a_missing_key(own_environment, monkeypatch):
    """So is no profile at all."""
    with pytest.raises(MissingKey, match="AWS_PROFILE"):
        credentials_of(os.environ)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(MissingKey, match="nobody"):
        credentials_of(os.environ)


def test_without_botocore_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    with pytest.raises(Unsupported, match=re.escape("pip install 'llmstream-sdk[bedrock]'")):
        sign(HttpRequest(URL, BODY), region="eu-west-3", env=ENV)


@needs_botocore
def test_service_from_address_or_provider():
    """The scope of a signature is date/region/service/aws4_request."""
    env = {**ENV, "AWS_REGION": "us-west-2"}
    signed = signing_for("bedrock-mantle")
    mantle = "https://bedrock-mantle.eu-west-1.api.aws/anthropic/v1/messages"
    for url, scope in (
        (mantle, "eu-west-1/bedrock-mantle"),
        (URL, "eu-west-3/bedrock"),
        ("https://proxy.example/v1/messages", "us-west-2/bedrock-mantle"),
    ):
        credential = fields(signed(HttpRequest(url, BODY), env))[0]
        assert credential.endswith(f"/{scope}/aws4_request")


@needs_botocore
def test_what_is_missing_is_named():
    with pytest.raises(MissingKey, match="Set ANTHROPIC_AWS_API_KEY, AWS_ACCESS_KEY_ID"):
        signing_for("x", key="ANTHROPIC_AWS_API_KEY")(HttpRequest(URL, BODY), {})
