"""Files by URL reach a vendor as bytes where it does not fetch them itself."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.chats import Audio, Document, Image, Message, ToolCall, ToolResult
from llmstream.dialects.anthropic import BEDROCK_INVOKE, Anthropic
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import MediaQuirks, OpenAIChat, Quirks
from llmstream.simulator import Refuse, Script, Simulator, Turn
from llmstream.streams.history import Inliner

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
HERE = ls.DownloadLimits(allow_private=True, allow_http=True)
INLINE = "data:image/png;base64,iVBORw=="


@pytest.fixture
async def pictures(serve):
    """A server of pictures: its address, and the paths it was asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path.startswith("/gone"):
            return web.Response(status=404)
        return web.Response(body=PNG, content_type="image/png")

    return await serve(answer), asked


def request_of(*messages: Message) -> ls.Request:
    return ls.Request(model="m", messages=messages)


async def test_image_url_reaches_vendor_as_base64(pictures) -> None:
    url, _ = pictures
    async with Simulator(dialects=[Ollama()]) as simulator:
        model = ls.Model("ollama:llava", base_url=simulator.url, downloads=HERE)
        await model.stream(Message.user("What is this?", Image(url=f"{url}/a.png"))).collect()
        [seen] = [received for received in simulator.requests if received.request is not None]
    [message] = seen.request.messages
    assert [part.data for part in message.parts if isinstance(part, Image)] == [PNG]


async def test_nothing_downloads_without_limits(pictures) -> None:
    url, asked = pictures
    model = ls.Model("ollama:llava", base_url="http://127.0.0.1:1")
    with pytest.raises(ls.Unsupported, match="only as bytes"):
        await model.stream(Message.user(Image(url=f"{url}/a.png"))).collect()
    assert asked == []


async def test_url_is_fetched_once_per_call(pictures) -> None:
    """All attempts of the call share the file."""
    url, asked = pictures
    image = Image(url=f"{url}/a.png")
    answers = Script(turns=(Turn(fault=Refuse(status=503, retry_after_s=0)), Turn(text="A cat.")))
    async with Simulator(answers, dialects=[Ollama()]) as simulator:
        model = ls.Model("ollama:llava", base_url=simulator.url, downloads=HERE)
        retry = ls.Retry(max_retries=1)
        message = await model.stream(Message.user("These two?", image, image), retry=retry).collect()
    assert message.text == "A cat."
    assert asked == ["/a.png"]


async def test_tool_result_files_are_fetched(pictures) -> None:
    """The conversation stays as it is."""
    url, asked = pictures
    result = ToolResult("c1", "a picture", parts=(Image(url=f"{url}/b.png"),))
    messages = (
        Message.user("Draw."),
        Message.assistant(ToolCall("c1", "draw", "{}"), Image(url=f"{url}/not-asked-for.png")),
        Message.tool([result]),
    )
    request = request_of(*messages)
    inlined = await Inliner(Ollama(), HERE).inline(request)
    [sent] = inlined.messages[2].tool_results
    assert sent.parts == (Image(data=PNG, media_type="image/png"),)
    assert request.messages[2].tool_results == [result]
    assert asked == ["/b.png"]


async def test_a_vendor_that_takes_urls_gets_them(pictures) -> None:
    url, asked = pictures
    request = request_of(Message.user(Image(url=f"{url}/a.png"), Document(url=f"{url}/a.pdf")))
    assert await Inliner(Anthropic(), HERE).inline(request) is request
    assert asked == []


async def test_the_callers_media_type_stays(pictures) -> None:
    url, _ = pictures
    request = request_of(Message.user(Document(url=f"{url}/a", media_type="application/pdf")))
    inlined = await Inliner(OpenAIChat(), HERE).inline(request)
    assert inlined.messages[0].parts == (Document(data=PNG, media_type="application/pdf"),)


async def test_other_schemes_are_left_to_dialect() -> None:
    request = request_of(Message.user(Image(url="s3://bucket/a.png")))
    assert await Inliner(Ollama(), HERE).inline(request) is request


async def test_data_urls_unpack_without_limits() -> None:
    request = request_of(Message.user(Document(url="data:text/plain,Hello")))
    inlined = await Inliner(OpenAIChat(), None).inline(request)
    assert inlined.messages[0].parts == (Document(data=b"Hello", media_type="text/plain"),)


async def test_missing_file_sends_nothing(pictures) -> None:
    """A typed error is raised."""
    url, _ = pictures
    async with Simulator(dialects=[Ollama()]) as simulator:
        model = ls.Model("ollama:llava", base_url=simulator.url, downloads=HERE)
        prompt = Message.user(Image(url=f"{url}/a.png"), Image(url=f"{url}/gone.png"))
        with pytest.raises(ls.InvalidRequest, match="answered 404"):
            await model.stream(prompt).collect()
        assert simulator.requests == []


async def test_stream_deadlines_cover_downloads(serve) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    model = ls.Model("ollama:llava", base_url="http://127.0.0.1:1", downloads=HERE)
    prompt = Message.user(Image(url=await serve(slow)))
    with pytest.raises(ls.DeadlineExceeded) as caught:
        await model.stream(prompt, deadlines=ls.Deadlines(total_s=0.1)).collect()
    assert caught.value.reason == "total"


WEB = "https://example.com/a"
CASES = [
    (Anthropic(), Image(url=WEB), True),
    (Anthropic(), Document(url=WEB + ".pdf"), True),
    (Anthropic(), Document(url=WEB + ".txt"), False),
    (Anthropic(), Document(url=WEB, media_type="text/csv"), False),
    (Anthropic(), Image(url=INLINE), True),
    (Anthropic(), Document(url="data:text/plain,Hi"), False),
    (Anthropic(), Audio(url=WEB), True),
    (BEDROCK_INVOKE, Image(url=WEB), False),
    (BEDROCK_INVOKE, Image(url=INLINE), True),
    (OpenAIChat(), Image(url=WEB), True),
    (OpenAIChat(), Audio(url=WEB), False),
    (OpenAIChat(), Document(url=WEB), False),
    (OpenAIChat(Quirks(media=MediaQuirks(file_urls=True))), Document(url=WEB), True),
    (OpenAIChat(Quirks(media=MediaQuirks(image_urls=False))), Image(url=WEB), False),
    (OpenAIChat(Quirks(media=MediaQuirks(image_urls=False))), Image(url=INLINE), True),
    (OpenAIChat(Quirks(media=MediaQuirks(string_only=True))), Image(url=WEB), True),
    (Ollama(), Image(url=WEB), False),
    (Ollama(), Image(url=INLINE), True),
    (Ollama(), Image(url="data:image/svg+xml,<svg/>"), False),
    (Ollama(), Document(url=WEB), True),
]


@pytest.mark.parametrize(("dialect", "part", "taken"), CASES)
def test_dialect_decides_which_urls_pass(dialect, part, taken) -> None:
    assert dialect.accepts_url(part) is taken


@pytest.mark.parametrize(("dialect", "part"), [(d, p) for d, p, taken in CASES if not taken])
async def test_what_is_inlined_is_encoded(dialect, part, pictures) -> None:
    url, _ = pictures
    if part.url.startswith("https"):
        part = type(part)(url=f"{url}/a.png", media_type="audio/wav" if isinstance(part, Audio) else "")
        free = ls.DownloadLimits(allow_private=True, allow_http=True, media_types={})
    else:
        free = HERE
    if isinstance(part, Document) and isinstance(dialect, Anthropic):
        part = type(part)(url=part.url, media_type="text/plain")
    inlined = await Inliner(dialect, free).inline(request_of(Message.user(part)))
    body = json.loads(dialect.encode(inlined, provider="x").http.body)
    assert url not in json.dumps(body)
