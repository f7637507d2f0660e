"""Refusals that real vendors sent: each becomes an error with its status, its kind and its words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmstream import errors
from llmstream.cli.config import wire_of
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.grammar import check
from llmstream.server_side.wires import server_side

BY_STATUS: dict[int, tuple[type[errors.LLMStreamError], ...]] = {
    400: (errors.BadRequest,),
    401: (errors.AuthenticationError,),
    403: (errors.AuthenticationError, errors.PermissionDenied),
    404: (errors.NotFound,),
    413: (errors.BadRequest,),
    422: (errors.BadRequest,),
    429: (errors.RateLimited,),
}
TOO_LONG = re.compile(
    r"context (length|window|size)|prompt (is )?too long|tokens? exceed|too many tokens|messages is too long",
    re.I,
)


@pytest.fixture(scope="module")
def cases(shared_dir: Path) -> list[tuple[Path, dict[str, Any]]]:
    folders = sorted(path.parent for path in (shared_dir / "corpus" / "errors").glob("*/meta.json"))
    if not folders:
        pytest.skip("the corpus is not here")
    return [(folder, json.loads((folder / "meta.json").read_text())) for folder in folders]


def read(folder: Path, meta: dict[str, Any]) -> tuple[errors.LLMStreamError, dict[str, str], str]:
    """The error, the headers that came with it, and the body as text."""
    body = (folder / "response.bin").read_bytes()
    headers = {name.lower(): str(value) for name, value in meta["headers"].items()}
    dialect = wire_of(meta["of_family"], None).dialect
    error = dialect.decode_error(meta["status"], headers, body, provider=meta["dialect"])
    return error, headers, body.decode("utf-8", "replace")


def words(value: object) -> Iterator[str]:
    """Every text under a name that vendors give to what they say."""
    if isinstance(value, list):
        for inner in value:
            yield from words(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str) and name in ("message", "detail", "error"):
                yield inner
            elif name in ("error", "detail"):
                yield from words(inner)


def test_status_decides_the_error_class(cases: list[tuple[Path, dict[str, Any]]]) -> None:
    for folder, meta in cases:
        error, _, _ = read(folder, meta)
        assert isinstance(error, errors.ProviderError), folder.name
        assert error.status == meta["status"], folder.name
        assert isinstance(error, BY_STATUS.get(meta["status"], (errors.ServerError, errors.Overloaded)))
        assert error.provider == meta["dialect"]


def test_an_error_keeps_the_vendors_words(cases: list[tuple[Path, dict[str, Any]]]) -> None:
    for folder, meta in cases:
        error, _, body = read(folder, meta)
        assert error.message.strip(), folder.name
        said = list(words(json.loads(body))) if body.strip() else []
        for text in said:
            assert text.strip() in error.message, folder.name
        assert said or not body.strip(), folder.name


def test_too_long_differs_from_refusals(cases: list[tuple[Path, dict[str, Any]]]) -> None:
    for folder, meta in cases:
        error, _, body = read(folder, meta)
        too_long = meta["status"] in (400, 413) and bool(TOO_LONG.search(body))
        assert isinstance(error, errors.ContextTooLong) == too_long, (folder.name, body[:200])


def test_only_temporary_errors_are_retryable(cases: list[tuple[Path, dict[str, Any]]]) -> None:
    for folder, meta in cases:
        error, headers, _ = read(folder, meta)
        wished = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
        usual = meta["status"] in (408, 409, 425, 429) or meta["status"] >= 500
        assert error.retryable is (usual if wished is None else wished), folder.name


def test_retry_wait_is_the_vendors(cases: list[tuple[Path, dict[str, Any]]]) -> None:
    for folder, meta in cases:
        error, headers, body = read(folder, meta)
        delay = re.search(r'"retryDelay":\s*"([\d.]+)s"', body)
        if "retry-after-ms" in headers:
            expected: float | None = float(headers["retry-after-ms"]) / 1000
        elif "retry-after" in headers:
            expected = float(headers["retry-after"])
        else:
            expected = float(delay[1]) if delay else None
        assert error.retry_after_s == expected, folder.name


def test_error_survives_the_simulator(cases: list[tuple[Path, dict[str, Any]]]) -> None:
    for folder, meta in cases:
        error, _, _ = read(folder, meta)
        dialect = wire_of(meta["of_family"], None).dialect
        answer = server_side(dialect).encode_error(error.info)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        again = dialect.decode_error(answer.status, headers, answer.body, provider=meta["dialect"])
        assert (type(again), again.status) == (type(error), error.status), folder.name
        assert error.message in again.message, folder.name


FRAMES = {
    "anthropic": b"event: error\ndata: %s\n\n",
    "gemini": b"data: %s\n\n",
    "mistral": b"data: %s\n\n",
    "ollama": b"%s\n",
    "openai-chat": b"data: %s\n\n",
    "openai-responses": b"data: %s\n\n",
}
"""How a server that has begun to answer says the same."""


def test_error_in_a_stream_keeps_its_message(cases: list[tuple[Path, dict[str, Any]]]) -> None:
    for folder, meta in cases:
        error, _, body = read(folder, meta)
        frame = FRAMES.get(meta["of_family"])
        if frame is None or not body.strip():
            continue
        line = json.dumps(json.loads(body)).encode()
        dialect = wire_of(meta["of_family"], None).dialect
        sentence = GuardedDecoder(dialect.decoder(provider="x"), provider="x")
        events = [*sentence.start(), *sentence.feed(frame % line), *sentence.close()]
        assert check(events) == [], folder.name
        assert isinstance(sentence.error, errors.ProviderError), (folder.name, sentence.error)
        assert error.message in sentence.error.message, folder.name
