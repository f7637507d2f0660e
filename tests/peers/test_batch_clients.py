"""The vendors' own clients use the simulator's batch APIs: files, jobs, lists and results."""

from __future__ import annotations

import json

import pytest

from llmstream.testing import BatchFaults, Simulator

# Google's client makes a subclass of aiohttp's session the first time that it asks.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

FAULTS = BatchFaults(polls=1, expire_every=3)


@pytest.fixture
async def simulator():
    async with Simulator(lambda r: f"Answer to {r.messages[-1].text}", batches=FAULTS) as found:
        yield found


@pytest.fixture
async def close_later():
    closing = []
    yield closing.append
    for close in closing:
        await close()


def chat(number):
    return {"model": "m", "messages": [{"role": "user", "content": f"row {number}"}]}


async def test_openai_files_and_batches(simulator, close_later):
    openai = pytest.importorskip("openai")
    client = openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="k")
    close_later(client.close)
    lines = [
        {"custom_id": f"id-{n}", "method": "POST", "url": "/v1/chat/completions", "body": chat(n)}
        for n in range(3)
    ]
    data = "\n".join(map(json.dumps, lines)).encode()
    file = await client.files.create(file=("in.jsonl", data), purpose="batch")
    assert (file.filename, file.bytes, file.purpose) == ("in.jsonl", len(data), "batch")
    batch = await client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"name": "mine"},
    )
    batch = await client.batches.retrieve(batch.id)
    assert batch.status == "in_progress"
    batch = await client.batches.retrieve(batch.id)
    assert batch.status == "expired"
    assert batch.request_counts.total == 3
    output = (await client.files.content(batch.output_file_id)).text
    first = json.loads(output.splitlines()[0])
    completion = openai.types.chat.ChatCompletion.model_validate(first["response"]["body"])
    assert (first["custom_id"], completion.choices[0].message.content) == ("id-0", "Answer to row 0")
    errors = (await client.files.content(batch.error_file_id)).text
    assert json.loads(errors)["error"]["code"] == "batch_expired"
    listed = [one async for one in client.batches.list(limit=1)]
    assert [(one.id, one.metadata) for one in listed] == [(batch.id, {"name": "mine"})]


async def test_anthropic_message_batches(simulator, close_later):
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.AsyncAnthropic(base_url=simulator.url, api_key="k")
    close_later(client.close)
    requests = [{"custom_id": f"id-{n}", "params": {**chat(n), "max_tokens": 9}} for n in range(3)]
    batch = await client.messages.batches.create(requests=requests)
    assert batch.processing_status == "in_progress"
    assert batch.request_counts.processing == 3
    await client.messages.batches.retrieve(batch.id)
    batch = await client.messages.batches.retrieve(batch.id)
    assert (batch.processing_status, batch.request_counts.expired) == ("ended", 1)
    found = {}
    async for one in await client.messages.batches.results(batch.id):
        found[one.custom_id] = one.result
    assert found["id-0"].message.content[0].text == "Answer to row 0"
    assert found["id-2"].type == "expired"
    await client.messages.batches.create(requests=requests)
    listed = [one.id async for one in client.messages.batches.list(limit=1)]
    assert len(set(listed)) == 2
    with pytest.raises(anthropic.NotFoundError):
        await client.messages.batches.retrieve("msgbatch_none")


async def test_google_inline_batch(simulator, close_later):
    genai = pytest.importorskip("google.genai")
    client = genai.Client(api_key="k", http_options={"base_url": simulator.url})
    close_later(client.aio.aclose)
    source = [
        {"contents": [{"role": "user", "parts": [{"text": f"row {n}"}]}], "metadata": {"key": str(n)}}
        for n in range(3)
    ]
    job = await client.aio.batches.create(
        model="gemini-2.5-flash", src=source, config={"display_name": "mine"}
    )
    assert job.display_name == "mine"
    await client.aio.batches.get(name=job.name)
    job = await client.aio.batches.get(name=job.name)
    assert job.state == genai.types.JobState.JOB_STATE_SUCCEEDED
    answers = job.dest.inlined_responses
    assert [one.metadata["key"] for one in answers] == ["0", "1", "2"]
    assert answers[0].response.text == "Answer to row 0"
    assert answers[2].error.code == 4
    listed = [one.name async for one in await client.aio.batches.list()]
    assert listed == [job.name]


async def test_google_batch_of_a_file(simulator, close_later, tmp_path):
    genai = pytest.importorskip("google.genai")
    client = genai.Client(api_key="k", http_options={"base_url": simulator.url})
    close_later(client.aio.aclose)
    path = tmp_path / "in.jsonl"
    lines = [
        {"key": f"id-{n}", "request": {"contents": [{"role": "user", "parts": [{"text": f"row {n}"}]}]}}
        for n in range(2)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    file = await client.aio.files.upload(
        file=path, config={"display_name": "mine", "mime_type": "application/jsonl"}
    )
    job = await client.aio.batches.create(model="gemini-2.5-flash", src=file.name)
    await client.aio.batches.get(name=job.name)
    job = await client.aio.batches.get(name=job.name)
    data = await client.aio.files.download(file=job.dest.file_name)
    answers = [json.loads(line) for line in data.decode().splitlines()]
    assert [one["key"] for one in answers] == ["id-0", "id-1"]
    response = genai.types.GenerateContentResponse.model_validate(answers[0]["response"])
    assert response.text == "Answer to row 0"


async def test_mistral_jobs(simulator, close_later):
    mistralai = pytest.importorskip("mistralai.client")
    client = mistralai.Mistral(server_url=f"{simulator.url}/mistral", api_key="k")
    close_later(lambda: client.__aexit__(None, None, None))
    lines = [{"custom_id": f"id-{n}", "body": {"messages": chat(n)["messages"]}} for n in range(3)]
    data = "\n".join(map(json.dumps, lines)).encode()
    file = await client.files.upload_async(file={"file_name": "in.jsonl", "content": data}, purpose="batch")
    job = await client.batch.jobs.create_async(
        input_files=[file.id],
        model="mistral-small-latest",
        endpoint="/v1/chat/completions",
        metadata={"name": "mine"},
    )
    await client.batch.jobs.get_async(job_id=job.id)
    job = await client.batch.jobs.get_async(job_id=job.id)
    assert (job.status, job.total_requests) == ("TIMEOUT_EXCEEDED", 3)
    stream = await client.files.download_async(file_id=job.output_file)
    answers = [json.loads(line) for line in (await stream.aread()).splitlines()]
    assert [one["custom_id"] for one in answers] == ["id-0", "id-1"]
    body = answers[0]["response"]["body"]
    assert body["choices"][0]["message"]["content"] == "Answer to row 0"
    listed = await client.batch.jobs.list_async()
    assert [(one.id, one.metadata) for one in listed.data] == [(job.id, {"name": "mine"})]
