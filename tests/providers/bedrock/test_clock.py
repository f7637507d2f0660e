"""A clock that is off is set right by the refusal, and the request signed once more."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime

import pytest

import llmstream as ls
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.events import Finish, TextDelta, TextEnd, TextStart
from llmstream.exchange import HttpRequest
from llmstream.providers.bedrock.clock import CLOCK, Clock
from llmstream.providers.bedrock.signing import sign
from llmstream.server_side.wires import server_side

needs_botocore = pytest.mark.skipif(
    importlib.util.find_spec("botocore") is None, reason="botocore is not installed"
)

THERE = "Sun, 30 Aug 2015 12:36:00 GMT"
THERE_S = datetime(2015, 8, 30, 12, 36, tzinfo=UTC).timestamp()
EXPIRED = (
    b'{"message":"Signature expired: %s is now earlier than 20150830T123100Z (20150830T123600Z - 5 min.)"}'
)
THERE_AT = "bedrock-runtime.us-east-1.amazonaws.com"
URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream"


def clock_at(seconds_behind: float) -> Clock:
    return Clock(lambda: THERE_S - seconds_behind)


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (403, "InvalidSignatureException", EXPIRED % b"20150830T113600Z"),
        (403, "SignatureDoesNotMatch", EXPIRED % b"20150830T113600Z"),
        (403, "RequestTimeTooSkewed", b'{"message":"too far off"}'),
        (400, "RequestExpired", b'{"message":"Request has expired."}'),
        (
            403,
            "InvalidSignatureException",
            b'{"message":"Signature not yet current: 20150830T133600Z is still later than 20150830T124100Z"}',
        ),
    ],
)
def test_time_refusal_corrects_the_clock(status: int, kind: str, body: bytes) -> None:
    clock = clock_at(3600)
    headers = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/", "date": THERE}
    assert clock.learn(THERE_AT, status, headers, body)
    assert clock.offset_at(THERE_AT) == 3600
    assert clock.now(THERE_AT) == datetime(2015, 8, 30, 12, 36, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (403, {"date": THERE}, b'{"message":"The security token included in the request is invalid."}'),
        (403, {"date": THERE}, b'{"message":"The request signature we calculated does not match."}'),
        (403, {}, EXPIRED % b"20150830T113600Z"),
        (403, {"date": "now"}, EXPIRED % b"20150830T113600Z"),
        (500, {"date": THERE}, EXPIRED % b"20150830T113600Z"),
    ],
)
def test_another_refusal_leaves_it_alone(status: int, headers: dict[str, str], body: bytes) -> None:
    clock = clock_at(3600)
    assert not clock.learn(THERE_AT, status, headers, body)
    assert clock.offset_at(THERE_AT) == 0


HOSTILE_DATES = [
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Fri, 31 Dec 9999 23:59:59 -2359",
    "Mon, 01 Jan 0001 00:00:00 GMT",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Sun, 06 Nov 1994 08:49:37 +9999999999",
    "Tue, 01 Sep 2015 12:36:00 GMT",
]


@pytest.mark.parametrize("date", HOSTILE_DATES)
def test_date_over_a_day_off_is_ignored(date: str) -> None:
    clock = clock_at(0)
    assert not clock.learn(THERE_AT, 403, {"date": date}, EXPIRED % b"20150830T113600Z")
    assert clock.now(THERE_AT) == datetime(2015, 8, 30, 12, 36, tzinfo=UTC)


def test_clock_correction_is_per_address() -> None:
    clock = clock_at(3600)
    assert clock.learn("127.0.0.1:8080", 403, {"date": THERE}, EXPIRED % b"20150830T113600Z")
    assert clock.offset_at("127.0.0.1:8080") == 3600
    assert clock.offset_at(THERE_AT) == 0


def test_servers_without_end_are_forgotten() -> None:
    clock = clock_at(3600)
    for port in range(1000):
        clock.learn(f"127.0.0.1:{port}", 403, {"date": THERE}, EXPIRED % b"20150830T113600Z")
    assert len(clock._offsets) <= 64
    assert clock.offset_at("127.0.0.1:999") == 3600


def test_correct_signature_is_not_repeated() -> None:
    clock, headers = clock_at(3600), {"date": THERE, "x-amzn-errortype": "RequestTimeTooSkewed"}
    assert clock.learn(THERE_AT, 403, headers, b"{}")
    assert not clock.learn(THERE_AT, 403, headers, b"{}")
    assert not clock.learn(THERE_AT, 403, headers, EXPIRED % b"20150830T123559Z")


def test_request_in_flight_is_retried_too() -> None:
    """One that was sent before the clock was corrected."""
    clock, headers = clock_at(3600), {"date": THERE}
    assert clock.learn(THERE_AT, 403, headers, EXPIRED % b"20150830T113600Z")
    assert clock.learn(THERE_AT, 403, headers, EXPIRED % b"20150830T113559Z")


@needs_botocore
def test_the_signature_has_the_clocks_time() -> None:
    clock = clock_at(3600)
    clock.learn(THERE_AT, 403, {"date": THERE}, EXPIRED % b"20150830T113600Z")
    env = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s"}
    signed = sign(HttpRequest(URL, b"{}"), region="us-east-1", env=env, clock=clock)
    assert signed.headers["x-amz-date"] == "20150830T123600Z"
    assert "/20150830/us-east-1/bedrock/aws4_request" in signed.headers["authorization"]


@needs_botocore
async def test_call_with_wrong_clock_succeeds(serve, monkeypatch) -> None:
    from aiohttp import web

    monkeypatch.setattr(CLOCK, "_offsets", {})
    for name, value in {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    ahead = datetime.now(UTC).timestamp() + 7200
    there = datetime.fromtimestamp(ahead, UTC)
    seen = []

    async def answer(request):
        stamp = request.headers["x-amz-date"]
        seen.append(stamp)
        signed = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs((there - signed).total_seconds()) > 300:
            return web.json_response(
                {"message": f"Signature expired: {stamp} is now earlier than {there:%Y%m%dT%H%M%SZ}"},
                status=403,
                headers={
                    "x-amzn-errortype": "InvalidSignatureException",
                    "date": f"{there:%a, %d %b %Y %H:%M:%S} GMT",
                },
            )
        encoder = server_side(BedrockConverse()).event_encoder(ls.Request(model="m"))
        events = [TextStart("0"), TextDelta("Hello", "0"), TextEnd("0"), Finish("stop")]
        body = b"".join([encoder.feed(event) for event in events]) + encoder.close()
        return web.Response(body=body, content_type=BedrockConverse().content_type)

    model = ls.Model("bedrock:m", base_url=await serve(answer))
    async with ls.stream(model, "Hi") as stream:
        text = "".join([event.delta async for event in stream if isinstance(event, TextDelta)])
    assert text == "Hello"
    assert len(seen) == 2
    (address,) = CLOCK._offsets
    assert abs(CLOCK.offset_at(address) - 7200) < 5
