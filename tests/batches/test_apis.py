"""The batch APIs without a server: requests out, responses in, whatever a server says."""

from __future__ import annotations

import json

import msgspec
import pytest

from llmstream.batches.apis import (
    AnthropicBatches,
    GoogleBatches,
    JobState,
    MistralBatches,
    NewJob,
    OpenAIBatches,
    Outcome,
)
from llmstream.errors import DecodeError
from llmstream.exchange import HttpResponse

APIS = [OpenAIBatches(), AnthropicBatches(), GoogleBatches(), MistralBatches()]
JOB = NewJob("n-0", "/models/m:streamGenerateContent", "m", 1, 1e9, file="file-1")
STRANGE = [b"", b"[]", b"null", b'"x"', b"<html>", b"{}", b'{"data":7}', b'{"data":[7,{}],"has_more":true}']
ODD = [
    b'{"id":7,"name":[],"status":{},"metadata":[],"errors":[],"request_counts":[1]}',
    b'{"id":"","name":"","status":"failed","errors":{"data":[7,{}]},"metadata":{"state":3,"output":[1]}}',
    b'{"operations":[{"metadata":7}],"data":[{"metadata":7,"request_counts":"x","created_at":[]}]}',
    b'{"processing_status":"ended","request_counts":{"succeeded":"many"},"files":[3],"nextPageToken":{}}',
]
LINE = msgspec.Raw(b'{"model":"m","contents":[]}')


def carried_out(steps, body, most=100):
    """The value of steps whose every request gets the same answer."""
    try:
        next(steps)
        for _ in range(most):
            steps.send(HttpResponse(200, body, {"x-goog-upload-url": "http://h/up"}))
    except StopIteration as end:
        return end.value
    raise AssertionError("it never ends")


@pytest.mark.parametrize("api", APIS, ids=lambda api: type(api).__name__)
@pytest.mark.parametrize("body", STRANGE + ODD)
def test_strange_answers_are_typed_errors(api, body):
    for steps in (api.find(JOB), api.find_file("n"), api.state("j"), api.create(JOB, []), api.cancel("j")):
        try:
            found = carried_out(steps, body)
        except DecodeError:
            continue
        assert found is None or isinstance(found, JobState | str | list)


@pytest.mark.parametrize("api", APIS, ids=lambda api: type(api).__name__)
@pytest.mark.parametrize(
    "line", [b"", b"7", b"[]", b'{"custom_id":7}', b"\xff", b'{"key":{}}', b'{"result":1}']
)
def test_strange_lines_are_no_outcome(api, line):
    assert api.outcome(line) is None


@pytest.mark.parametrize("api", APIS, ids=lambda api: type(api).__name__)
def test_line_is_one_json_object(api):
    line = api.line("n-0-1", LINE, "/chat/completions")
    assert b"\n" not in line
    found = json.loads(line)
    assert found.get("custom_id", found.get("key")) == "n-0-1"


@pytest.mark.parametrize(
    ("api", "line", "outcome"),
    [
        (OpenAIBatches(), {"response": {"status_code": 200, "body": {"a": 1}}}, (200, b'{"a":1}')),
        (OpenAIBatches(), {"response": None, "error": {"code": "batch_expired"}}, (0, None)),
        (
            OpenAIBatches(),
            {"response": {"status_code": 429, "body": {}}, "error": {"code": "x"}},
            (429, b"{}"),
        ),
        (AnthropicBatches(), {"result": {"type": "succeeded", "message": {"a": 1}}}, (200, b'{"a":1}')),
        (AnthropicBatches(), {"result": {"type": "canceled"}}, (0, b"")),
        (
            AnthropicBatches(),
            {
                "result": {
                    "type": "errored",
                    "error": {"type": "error", "error": {"type": "invalid_request_error"}},
                }
            },
            (400, None),
        ),
        (GoogleBatches(), {"response": {"a": 1}}, (200, b'{"a":1}')),
        (GoogleBatches(), {"error": {"code": 4, "message": "late"}}, (0, None)),
        (GoogleBatches(), {"error": {"code": 3, "message": "bad"}}, (400, None)),
    ],
)
def test_outcomes_as_documented(api, line, outcome):
    name = {"metadata": {"key": "i"}} if isinstance(api, GoogleBatches) else {"custom_id": "i"}
    found = api.outcome(msgspec.json.encode({**name, **line}))
    assert isinstance(found, Outcome)
    assert (found.custom_id, found.status) == ("i", outcome[0])
    assert outcome[1] is None or found.body == outcome[1]


def test_mistral_names_the_model_once():
    line = json.loads(MistralBatches().line("i", LINE, "/v1/chat/completions"))
    assert line["body"] == {"contents": []}
    request = next(MistralBatches().create(JOB, []))
    assert request.json()["model"] == "m"


def test_openai_endpoint_has_its_version():
    line = json.loads(OpenAIBatches().line("i", LINE, "/responses"))
    assert (line["url"], line["method"]) == ("/v1/responses", "POST")
