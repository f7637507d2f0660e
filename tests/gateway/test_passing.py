"""The pass lane: where the client speaks the vendor's wire, no byte changes."""

from __future__ import annotations

import random
import re
from pathlib import Path

import aiohttp
import msgspec
import pytest
from gateway_parts import WIRES, gateway_before, model_at, request_of, script_of, serving

from llmstream.dialects.base import dialect_class
from llmstream.exchange import HttpRequest
from llmstream.gateway import Gateway
from llmstream.gateway.client_wire import ClientCall, with_model
from llmstream.gateway.reading_along import usage_in
from llmstream.server_side.wires import server_side
from llmstream.testing import Recording, Refuse, Simulator, Turn

HERE = Path(__file__).parent
OURS = {
    wire: sorted(
        path
        for path in (HERE.parent / "dialects" / wire.replace("-", "_") / "recordings").glob("*")
        if path.suffix in (".sse", ".ndjson", ".bin")
    )
    for wire in WIRES
}


async def received(url: str, http: HttpRequest) -> tuple[int, bytes, bool]:
    """Status, body as far as it came, and whether it ended in order."""
    body = b""
    async with aiohttp.ClientSession() as session:
        headers = {"content-type": "application/json", **http.headers}
        async with session.post(url + http.url, data=http.body, headers=headers) as response:
            try:
                async for piece in response.content.iter_any():
                    body += piece
            except aiohttp.ClientError:
                return response.status, body, False
            return response.status, body, True


def at_random_cuts(recording: Recording, seed: int) -> Recording:
    """The recording in pieces of random sizes, without waiting."""
    dice, left, sizes = random.Random(seed), len(recording.body), []
    while left > 0 and len(sizes) < 40:
        size = min(left, dice.choice((1, 2, 7, 100, 1000, 10_000)))
        sizes.append((0.0, size))
        left -= size
    return msgspec.structs.replace(recording, timing=tuple(sizes))


async def assert_identical(wire: str, recordings: list[Recording]) -> tuple[int, int]:
    """Plays recordings through a gateway; returns how many ended in order, and how many were cut."""
    complete = cut = 0
    async with Simulator(
        recordings=[at_random_cuts(one, n) for n, one in enumerate(recordings)]
    ) as simulator:
        gateway = Gateway({"*": model_at(simulator.url, wire)})
        async with serving(gateway) as url:
            for recording in recordings:
                status, body, in_order = await received(url, request_of(wire))
                assert status == recording.status
                if in_order:
                    assert body == recording.body
                    complete += 1
                else:
                    assert recording.body.startswith(body)
                    cut += 1
    return complete, cut


@pytest.mark.parametrize("wire", [wire for wire in WIRES if OURS[wire]])
async def test_our_recordings_stay_identical(wire: str) -> None:
    complete, cut = await assert_identical(wire, [Recording.load(path) for path in OURS[wire]])
    assert (complete, cut) == (len(OURS[wire]), 0)


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
async def test_all_recordings_stay_identical(wire: str, shared_dir: Path) -> None:
    """Skipped where the corpus of recordings is not there."""
    # Claude on Bedrock has frames of AWS, and is another wire to a gateway.
    cases = [
        path.parent
        for path in sorted((shared_dir / "corpus" / wire).glob("*/response.bin"))
        if b'"bedrock-invoke"' not in (path.parent / "meta.json").read_bytes()
    ]
    if not cases:
        pytest.skip("the corpus is not here")
    complete, cut = await assert_identical(wire, [Recording.load(case) for case in cases])
    # `cut-error` ends in an error of the vendor on its own wire.
    assert cut == sum(re.match("cut-(?!error)", case.name) is not None for case in cases)
    assert complete == len(cases) - cut


@pytest.mark.parametrize("wire", WIRES)
async def test_client_and_vendor_agree(wire: str) -> None:
    """The request arrives as it was sent, but for credentials; a tool loop works."""
    async with gateway_before(wire) as (url, simulator):
        sent = request_of(wire)
        headers = {
            **sent.headers,
            "authorization": "Bearer of-the-client",
            "x-custom": "kept",
            "cookie": "c=1",
        }
        status, _, in_order = await received(url, msgspec.structs.replace(sent, headers=headers))
        assert (status, in_order) == (200, True)
        http = simulator.requests[0].http
        assert http.body == sent.body
        assert http.headers["x-custom"] == "kept"
        assert "cookie" not in http.headers
        assert "of-the-client" not in str(http.headers)


async def test_other_names_change_only_the_name() -> None:
    body = b'{ "stream":true,\n "model" : "mine", "messages":[{"role":"user","content":"Hi"}]}'
    renamed = with_model(HttpRequest("/v1/chat/completions", body), "theirs")
    assert renamed.body == body.replace(b'"mine"', b'"theirs"')
    twice = b'{"messages": [], "tools": [{"properties": {"model": "x"}}], "model": "mine"}'
    changed = with_model(HttpRequest("/v1/chat/completions", twice), "theirs")
    assert msgspec.json.decode(changed.body) == msgspec.json.decode(twice) | {"model": "theirs"}
    assert b'{"properties": {"model": "x"}}' in changed.body
    path = with_model(HttpRequest("/v1beta/models/mine:streamGenerateContent?alt=sse"), "theirs")
    assert path.url == "/v1beta/models/theirs:streamGenerateContent?alt=sse"


@pytest.mark.parametrize("wire", WIRES)
async def test_vendor_errors_pass_as_they_are(wire: str) -> None:
    refusing = script_of([Turn(fault=Refuse(status=429, message="slow down", retry_after_s=3.0))])
    async with (
        Simulator(refusing) as simulator,
        serving(Gateway({"*": model_at(simulator.url, wire)})) as url,
    ):
        direct = await received(simulator.url, request_of(wire))
        through = await received(url, request_of(wire))
        # The simulator numbers its requests.
        assert through[0] == direct[0] == 429
        assert through[1].replace(b"req_sim_1", b"req_sim_0") == direct[1]


async def test_passes_on_to_the_next() -> None:
    """A refused call goes to the next model, of the same wire or another one."""
    refusing = script_of([Turn(fault=Refuse(status=529, message="overloaded"))])
    async with Simulator(refusing) as first, Simulator(script_of([Turn(text="second")])) as second:
        for wire in ("anthropic", "gemini"):
            models = [model_at(first.url, "anthropic"), model_at(second.url, wire)]
            async with serving(Gateway({"*": models})) as url:
                assert (await model_at(url, "anthropic").ask("Hello")).text == "second"


@pytest.mark.parametrize("wire", WIRES)
async def test_limits_of_every_wire_are_found(wire: str) -> None:
    """What a call may cost at most depends on them."""
    side = server_side(dialect_class(wire)())
    assert ClientCall.of(side, request_of(wire)).most_output_tokens == 100


async def test_empty_streams_go_to_the_next() -> None:
    """A vendor that breaks off before its first content has shown nothing."""
    recording = Recording(body=b'event: ping\ndata: {"type": "ping"}\n\n')
    async with (
        Simulator(recordings=recording) as first,
        Simulator(script_of([Turn(text="second")])) as second,
    ):
        models = [model_at(first.url, "anthropic"), model_at(second.url, "anthropic")]
        async with serving(Gateway({"*": models})) as url:
            assert (await model_at(url, "anthropic").ask("Hello")).text == "second"


@pytest.mark.parametrize(
    ("body", "asked", "made", "cached"),
    [
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 4},
                }
            },
            9,
            2,
            4,
        ),
        ({"usage": {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 4}}, 13, 2, 4),
        (
            {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}},
            9,
            5,
            None,
        ),
        ({"usage": {"inputTokens": 9, "outputTokens": 2}}, 9, 2, None),
        ({"usage": {"tokens": {"input_tokens": 9.0, "output_tokens": 2.0}}}, 9, 2, None),
        ({"prompt_eval_count": 9, "eval_count": 2}, 9, 2, None),
        ([], None, None, None),
    ],
)
def test_usage_of_whole_answers(body: object, asked: int, made: int, cached: int | None) -> None:
    found = usage_in(body)
    assert (found.input_tokens, found.output_tokens, found.cached_input_tokens) == (asked, made, cached)
