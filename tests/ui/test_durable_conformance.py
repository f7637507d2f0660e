"""The Durable Streams project's own tests of servers, as far as they concern reading.

Their tests create and append by HTTP, which is not offered here: `durable_writing` is a server for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from tests.ui.durable_writing import serving

HERE = Path(__file__).parent
PACKAGE = "@durable-streams/server-conformance-tests"
WITHIN_S = 300.0

WRITING: Final = "what a writer gets"
EXPIRY: Final = "expiry that a writer asks for; runs expire by keep_s of open_logs()"
FORKS: Final = "forks of a stream"
TEXT: Final = "Server-Sent Events of text and bytes; a run is JSON, which has no raw line ends"

# Groups of tests, and single tests.
LEFT_OUT: Final = {
    "should create a stream": WRITING,
    "should allow idempotent create with same config": WRITING,
    "should reject create with different config (409)": WRITING,
    "should enforce sequence ordering with seq": WRITING,
    "should return correct headers on PUT": WRITING,
    "should return 200 on idempotent PUT with same config": WRITING,
    "should return 409 on PUT with different config": WRITING,
    "should return correct headers on POST": WRITING,
    "should return 404 on POST to non-existent stream": WRITING,
    "should return 409 on content-type mismatch": WRITING,
    "should return 404 on DELETE non-existent stream": WRITING,
    "should return 204 on successful DELETE": WRITING,
    "should enforce sequence ordering": WRITING,
    'should enforce lexicographic seq ordering ("2" then "10" rejects)': WRITING,
    'should allow lexicographic seq ordering ("09" then "10" succeeds)': WRITING,
    "should reject duplicate seq values": WRITING,
    "should include X-Content-Type-Options: nosniff on PUT responses": WRITING,
    "should include X-Content-Type-Options: nosniff on POST responses": WRITING,
    "Case-Insensitivity": WRITING,
    "should enforce content-type match on append": WRITING,
    "should allow append with matching content-type": WRITING,
    "should reject empty POST body with 400": WRITING,
    "should generate unique, monotonically increasing offsets": WRITING,
    "should enforce case-sensitive seq ordering": WRITING,
    "should return Location header on 201": WRITING,
    "should reject missing Content-Type on POST": WRITING,
    "should accept PUT without Content-Type (use default)": WRITING,
    "should handle large payload appropriately": WRITING,
    "should reject POST with empty array body": WRITING,
    "should reject invalid JSON with 400": WRITING,
    "should reject empty JSON arrays with 400": WRITING,
    "offsets are always monotonically increasing": WRITING,
    "Sequence Ordering Properties": WRITING,
    "concurrent writers with sequence numbers - server handles gracefully": WRITING,
    "concurrent writers racing with incrementing seq values": WRITING,
    "Idempotent Producer Operations": WRITING,
    "Create with Stream-Closed": WRITING,
    "Close Operations": WRITING,
    "Idempotent Producers with Stream Closure": WRITING,
    "409-includes-stream-offset: 409 for closed stream includes Stream-Next-Offset header": WRITING,
    "close-nonexistent-stream-404: POST with Stream-Closed to nonexistent stream returns 404": WRITING,
    "producer-state-survives-close: Stale-epoch producer gets 403, not 409 STREAM_CLOSED": WRITING,
    "close-with-different-body-dedup: Retry close with different body deduplicates to original": WRITING,
    "empty-post-without-stream-closed-400: POST with empty body but no Stream-Closed returns 400": WRITING,
    "TTL and Expiry Validation": EXPIRY,
    "TTL and Expiry Edge Cases": EXPIRY,
    "HEAD Metadata Edge Cases": EXPIRY,
    "TTL Expiration Behavior": EXPIRY,
    "Fork - Creation": FORKS,
    "Fork - Reading": FORKS,
    "Fork - Appending": FORKS,
    "Fork - Recursive": FORKS,
    "Fork - Live Modes": FORKS,
    "Fork - Deletion and Lifecycle": FORKS,
    "Fork - TTL and Expiry": FORKS,
    "Fork - JSON Mode": FORKS,
    "Fork - Edge Cases": FORKS,
    "base64 SSE catch-up pairs every data event with a control event": TEXT,
    "should handle newlines in text/plain payloads": TEXT,
    "should prevent CRLF injection in payloads - embedded event boundaries become literal data": TEXT,
    "should auto-detect binary streams and return base64 encoded data in SSE mode": TEXT,
    "should include Stream-SSE-Data-Encoding header for binary streams": TEXT,
    "should base64 encode data events only, control events remain JSON": TEXT,
    "should handle empty binary payload with auto-detected base64 encoding": TEXT,
    "should handle large binary payload with auto-detected base64 encoding": TEXT,
    "should handle binary data with special bytes using auto-detected base64 encoding": TEXT,
    "should auto-detect base64 encoding for application/x-protobuf streams": TEXT,
    "should auto-detect base64 encoding for image/png streams": TEXT,
    "should handle offset=now with auto-detected base64 encoding for binary streams": TEXT,
    "should allow If-None-Match in CORS preflight responses": "CORS is for the application to answer",
    "Reserved subscription APIs": "webhooks; their own runner leaves them out by default",
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with the program that runs their tests."""
    modules = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or HERE.parent / "peers" / "node_modules")
    if shutil.which("node") is None or not (modules / PACKAGE).is_dir():
        pytest.skip(f"node or {PACKAGE} is not installed; see tests/peers/README.md")
    shutil.copy(HERE / "js" / "durable_streams.test.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(modules.resolve(), target_is_directory=True)
    return tmp_path


async def results(suite: Path, server: str) -> list[dict[str, Any]]:
    """What their tests report, each with its name, the names of its groups, and its status."""
    process = await asyncio.create_subprocess_exec(
        *("node", "node_modules/vitest/vitest.mjs", "run", "--root=.", "--cache=false"),
        # Some of their tests wait 2 s for a response, which a busy machine may exceed.
        *("--retry=2", "--testTimeout=60000", "--reporter=json", "--outputFile=results.json"),
        cwd=suite,
        env={**os.environ, "SERVER": server, "LEFT_OUT": json.dumps(LEFT_OUT)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, complaints = await asyncio.wait_for(process.communicate(), WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert (suite / "results.json").is_file(), complaints.decode()
    (file,) = json.loads((suite / "results.json").read_text())["testResults"]
    return list(file["assertionResults"])


@pytest.mark.slow
async def test_their_tests_of_reading_pass(suite: Path) -> None:
    async with serving(suite, poll_s=0.5) as server:
        found = await results(suite, server)
    failed = {test["fullName"]: test["failureMessages"] for test in found if test["status"] == "failed"}
    assert not failed
    names = {name for test in found for name in (*test["ancestorTitles"], test["title"])}
    assert not LEFT_OUT.keys() - names, "left out, but not there"
    read = [test for test in found if not LEFT_OUT.keys() & {*test["ancestorTitles"], test["title"]}]
    assert {test["status"] for test in read} == {"passed"}
    assert len(read) > 100
