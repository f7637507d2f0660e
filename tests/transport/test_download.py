"""Files behind URLs, from real servers: how much, how long, and through which redirects."""

from __future__ import annotations

import asyncio
import gzip
import socket

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.transport import download as module
from llmstream.transport.download import Downloaded, DownloadLimits, download

PNG = b"\x89PNG\r\n\x1a\n" + bytes(200)
HERE = DownloadLimits(allow_private=True, allow_http=True, max_bytes=1000, total_s=5)


def body(data: bytes, **headers: str):
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=data, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


def redirect(*targets: str):
    """Sends the nth request to the nth target, and what comes after them to the file."""
    left = list(targets)

    async def answer(request: web.Request) -> web.StreamResponse:
        if left:
            return web.Response(status=302, headers={"location": left.pop(0)})
        return web.Response(body=PNG, content_type="image/png")

    return answer


async def test_file_has_its_bytes_and_media_type(serve) -> None:
    url = await serve(body(PNG, content_type="image/PNG; q=1"))
    assert await download(f"{url}/a.png", limits=HERE, kind="image") == Downloaded(PNG, "image/png")


@pytest.mark.parametrize(
    ("data", "path", "media_type"),
    [
        (PNG, "/a", "image/png"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "/a", "image/webp"),
        (b"%PDF-1.7", "/a.txt", "application/pdf"),
        (b"words", "/notes.txt", "text/plain"),
        (b"words", "/notes", ""),
    ],
)
async def test_missing_type_is_guessed(serve, data, path, media_type) -> None:
    """The content and the name give the media type."""
    url = await serve(body(data, content_type="application/octet-stream"))
    assert (await download(url + path, limits=HERE)).media_type == media_type


async def test_nothing_of_ours_goes_along(serve, monkeypatch) -> None:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        if len(seen) == 1:
            return web.Response(status=302, headers={"location": "/again", "set-cookie": "a=b"})
        return web.Response(body=PNG, content_type="image/png")

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    await download(await serve(answer), limits=HERE)
    for request in seen:
        assert not {"cookie", "authorization", "x-api-key"} & {name.lower() for name in request.headers}


async def test_private_addresses_are_refused(serve) -> None:
    """An option allows them."""
    url = await serve(body(PNG))
    with pytest.raises(ls.InvalidRequest, match=r"127\.0\.0\.1 is not public"):
        await download(url, limits=DownloadLimits(allow_http=True))
    with pytest.raises(ls.InvalidRequest, match="allowed is https"):
        await download(url, limits=DownloadLimits(allow_private=True))


async def test_name_of_private_address_is_refused(serve, monkeypatch) -> None:
    with_names(monkeypatch, {"pictures.example": ["93.184.216.34", "10.0.0.7"]})
    with pytest.raises(ls.InvalidRequest, match=r"pictures\.example cannot be fetched from: 10\.0\.0\.7"):
        await download("https://pictures.example/a.png")


async def test_connection_uses_the_checked_address(serve, monkeypatch) -> None:
    hosts: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        hosts.append(request.host)
        return web.Response(body=PNG, content_type="image/png")

    port = (await serve(answer)).rpartition(":")[2]
    asked = with_names(monkeypatch, {"pictures.example": ["127.0.0.1"]}, rebinding="10.0.0.1")
    await download(f"http://pictures.example:{port}/a.png", limits=HERE)
    assert asked == ["pictures.example"]
    assert hosts == [f"pictures.example:{port}"]


async def test_unknown_name_is_failed_connection(monkeypatch) -> None:
    with_names(monkeypatch, {})
    with pytest.raises(ls.ConnectionFailed, match=r"nowhere\.example"):
        await download("https://nowhere.example/")


async def test_closed_port_is_a_failed_connection(unused_tcp_port) -> None:
    with pytest.raises(ls.ConnectionFailed):
        await download(f"http://127.0.0.1:{unused_tcp_port}/", limits=HERE)


async def test_redirects_are_followed_to_a_limit(serve) -> None:
    assert (await download(await serve(redirect("/b", "c", "?d")), limits=HERE)).data == PNG
    with pytest.raises(ls.InvalidRequest, match="more than 3 redirects"):
        await download(await serve(redirect("/b", "/c", "/d", "/e")), limits=HERE)


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://2852039166/",
        "http://127.1/",
        "http://localhost./",
        "http://user:word@localhost/",
        "file:///etc/passwd",
        "ftp://localhost/",
        "http://[::1",
        "data:image/png;base64,AAAA",
    ],
)
async def test_each_redirect_is_checked_anew(serve, target) -> None:
    with pytest.raises(ls.InvalidRequest):
        await download(await serve(redirect(target)), limits=HERE)


async def test_redirect_into_private_net_refused(serve, monkeypatch) -> None:
    inside = await serve(body(b"secret"))
    outside = await serve(redirect(f"{inside}/admin"))
    port = outside.rpartition(":")[2]
    with_names(monkeypatch, {"public.example": ["127.0.0.1"]})
    real = module.refused_address
    first: list[str] = []

    def refused_address(address: str, *, allow_private: bool = False) -> str | None:
        first.append(address)
        return None if len(first) == 1 else real(address, allow_private=allow_private)

    monkeypatch.setattr(module, "refused_address", refused_address)
    with pytest.raises(ls.InvalidRequest, match="not public"):
        await download(f"http://public.example:{port}/", limits=DownloadLimits(allow_http=True))


async def test_declared_oversize_refused_unread(serve) -> None:
    with pytest.raises(ls.LimitExceeded, match="larger than 1000 bytes"):
        await download(await serve(body(bytes(1001))), limits=HERE)
    assert len((await download(await serve(body(bytes(1000))), limits=HERE)).data) == 1000


async def test_body_without_length_cut_at_limit(serve) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(500))
            await asyncio.sleep(0)

    with pytest.raises(ls.LimitExceeded):
        await download(await serve(endless), limits=HERE)


async def test_compressed_body_counts_unpacked(serve) -> None:
    bomb = gzip.compress(bytes(5_000_000))
    with pytest.raises(ls.LimitExceeded):
        url = await serve(body(bomb, content_encoding="gzip"))
        await download(url, limits=DownloadLimits(allow_private=True, allow_http=True, max_bytes=100_000))


async def test_false_length_is_a_lost_connection() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nshort")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ls.ConnectionLost):
            await download(f"http://127.0.0.1:{port}/", limits=HERE)


async def test_a_slow_body_is_left(serve) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"a")
        await asyncio.sleep(30)
        return response

    limits = DownloadLimits(allow_private=True, allow_http=True, total_s=0.1)
    with pytest.raises(ls.DeadlineExceeded, match=r"within 0\.1 s") as caught:
        await download(await serve(slow), limits=limits)
    assert caught.value.reason == "download"


async def test_a_file_of_another_type_is_refused(serve) -> None:
    url = await serve(body(b"<html>", content_type="text/html"))
    with pytest.raises(ls.InvalidRequest, match="should be an image but has the media type 'text/html'"):
        await download(url, limits=HERE, kind="image")
    assert (await download(url, limits=HERE, kind="document")).media_type == "text/html"


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [(404, ls.InvalidRequest, False), (403, ls.InvalidRequest, False), (304, ls.InvalidRequest, False),
     (429, ls.TransportError, True), (503, ls.TransportError, True)],
)  # fmt: skip
async def test_response_without_file_is_an_error(serve, status, error, retryable) -> None:
    """The error is typed."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    with pytest.raises(error, match=f"answered {status}") as caught:
        await download(await serve(answer), limits=HERE)
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


@pytest.mark.parametrize("encoding", ["xyzzy", "gzip, gzip", "deflate,x"])
async def test_unknown_encoding_is_no_file(serve, encoding) -> None:
    url = await serve(body(PNG, content_type="image/png", content_encoding=encoding))
    with pytest.raises(ls.DecodeError, match="content-encoding"):
        await download(url, limits=HERE)


@pytest.mark.parametrize("told", ["image/" + "a" * 4000, "image", "image/png/x", 'image/a"b', "im age/png"])
async def test_invalid_media_type_is_not_trusted(serve, told) -> None:
    url = await serve(body(PNG, content_type=told))
    assert (await download(url, limits=HERE)).media_type == "image/png"


@pytest.mark.parametrize(
    "url",
    [
        "https:/example.com/?sig=SECRET://",
        "https://u:pass/SECRET@example.com/a",
        "https://u:a#SECRET@example.com/a",
        "ftp://example.com/a;SECRET@b",
        "HTTPS:example.com/?SECRET",
        "http://example.com\\SECRET",
        "SECRET@example.com",
    ],
)
async def test_an_odd_url_is_not_shown_whole(url) -> None:
    with pytest.raises(ls.LLMStreamError) as caught:
        await download(url, limits=HERE)
    assert "SECRET" not in str(caught.value)


async def test_an_error_tells_no_secret_of_the_url(serve) -> None:
    url = await serve(redirect("http://user:word@localhost/a?signature=secret#secret"))
    with pytest.raises(ls.InvalidRequest) as caught:
        await download(url, limits=HERE)
    assert "localhost/a" in str(caught.value)
    assert "word" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("data:image/png;base64,iVBORw==", Downloaded(b"\x89PNG", "image/png")),
        ("DATA:image/png;charset=x;BASE64,iVBORw", Downloaded(b"\x89PNG", "image/png")),
        ("data:image/png;base64,iVBO%52w%3D%3D", Downloaded(b"\x89PNG", "image/png")),
        ("data:text/csv,a%2Cb,c", Downloaded(b"a,b,c", "text/csv")),
        ("data:,Hi", Downloaded(b"Hi", "text/plain")),
    ],
)
async def test_a_data_url_needs_no_network(url, found) -> None:
    assert await download(url) == found


@pytest.mark.parametrize("url", ["data:image/png;base64,?", "data:image/png;base64", "data:"])
async def test_a_damaged_data_url_is_refused(url) -> None:
    with pytest.raises(ls.InvalidRequest):
        await download(url)


@pytest.mark.parametrize("url", ["data:,123456789", "data:;base64," + "A" * 40])
async def test_a_data_url_has_the_same_limit(url) -> None:
    with pytest.raises(ls.LimitExceeded):
        await download(url, limits=DownloadLimits(max_bytes=8))


def with_names(monkeypatch, names: dict[str, list[str]], *, rebinding: str | None = None) -> list[str]:
    """Answers look-ups of names from a table, and from the second on with another address.

    Returns the names that are asked for.
    """
    asked: list[str] = []

    async def getaddrinfo(host, port, **_):
        if host not in names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        addresses = names[host] if host not in asked or rebinding is None else [rebinding]
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def only_names(host, port, **options):
        if str(host)[:1].isdigit():
            return await real(host, port, **options)
        return await getaddrinfo(host, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", only_names)
    return asked
