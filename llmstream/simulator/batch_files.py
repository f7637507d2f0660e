"""The files of batch APIs: those of OpenAI and Mistral, which have the same pages, and Google's."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from email.parser import BytesParser
from typing import Any, Final

import msgspec

from llmstream.errors import BadRequest, NotFound
from llmstream.exchange import HttpRequest, HttpResponse

__all__ = ["JSONL", "BatchFiles", "json_page", "object_of"]

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
# Mistral's client accepts no other type for the content of a file.
_BYTES: Final = {"content-type": "application/octet-stream"}
JSONL: Final = {"content-type": "application/jsonl"}
"""The type of results that are not in a file."""


class BatchFiles:
    """The files of one simulator.

    url: returns its base URL
    """

    def __init__(self, url: Callable[[], str], now: Callable[[], datetime.datetime]) -> None:
        self._url = url
        self._now = now
        self._files: dict[str, tuple[str, bytes]] = {}
        self._uploads: dict[str, str] = {}

    def put(self, number: str, name: str, data: Callable[[], bytes]) -> str:
        """Stores a file under an id, once; returns the id."""
        if number not in self._files:
            self._files[number] = (name, data())
        return number

    def lines_of(self, number: object) -> list[dict[str, Any]]:
        """The requests in a file.

        raises: BadRequest if there is no such file, or two requests have one id
        """
        if number not in self._files:
            raise BadRequest(f"No such File object: {number}", status=400)
        lines = [_decode(line) for line in self._files[str(number)][1].splitlines() if line.strip()]
        ids = [line.get("custom_id", line.get("key")) for line in lines]
        if len(set(ids)) < len(ids):
            raise BadRequest("The custom_id of a request is used twice in the file", status=400)
        return lines

    def store(self, name: str, data: bytes, kind: str = "file-") -> str:
        """Stores an uploaded file; returns its id."""
        number = f"{kind}sim{len(self._files)}"
        self._files[number] = (name, data)
        return number

    def page(self, http: HttpRequest, rest: str, query: Mapping[str, str]) -> HttpResponse:
        """Files of OpenAI and Mistral, in a form that both understand."""
        if http.method == "POST" and not rest:
            name, data = _form_file(http)
            return json_page(self._file(self.store(name, data)))
        number, _, action = rest.partition("/")
        if not rest:
            # has_more is OpenAI's, total Mistral's.
            return json_page({"object": "list", "data": [self._file(n) for n in reversed(self._files)],
                          "has_more": False, "total": len(self._files)})  # fmt: skip
        if number not in self._files:
            raise NotFound(f"No such File object: {number}", status=404)
        if action == "content":
            return HttpResponse(200, self._files[number][1], _BYTES)
        return json_page(self._file(number))

    def _file(self, number: str) -> dict[str, Any]:
        name, data = self._files[number]
        return {
            "id": number,
            "object": "file",
            "bytes": len(data),
            "created_at": int(self._now().timestamp()),
            "filename": name,
            "purpose": "batch",
            "status": "processed",
            # Mistral's client refuses a file without these two; OpenAI's ignores them.
            "sample_type": "batch_request",
            "source": "upload",
        }

    def google_page(
        self, http: HttpRequest, groups: Mapping[str, str | None], query: Mapping[str, str]
    ) -> HttpResponse:
        """Google's pages: an upload in two steps, the list, and a download."""
        if groups["download"]:
            data = self._files.get(groups["download"])
            if data is None:
                raise NotFound("the file does not exist", status=404)
            return HttpResponse(200, data[1], JSONL)
        if groups["files"]:
            files = [self._google_shape(number) for number in self._files]
            return json_page({"files": files})
        if "upload_id" in query:
            number = self.store(self._uploads.pop(query["upload_id"]), http.body, "files/")
            shown = json_page({"file": self._google_shape(number)})
            # Without the header, google-genai takes the upload for unfinished.
            return msgspec.structs.replace(shown, headers={**shown.headers, "x-goog-upload-status": "final"})
        about = (object_of(http).get("file") or {}) if http.body else {}
        upload = f"up{len(self._uploads)}-{len(self._files)}"
        # JSON of protobuf has both spellings of a name.
        self._uploads[upload] = str(about.get("display_name") or about.get("displayName") or "")
        address = f"{self._url()}/upload/v1beta/files?upload_id={upload}"
        return HttpResponse(200, b"{}", {"content-type": "application/json", "x-goog-upload-url": address})

    def _google_shape(self, number: str) -> dict[str, Any]:
        name, data = self._files[number]
        return {
            "name": number,
            "displayName": name,
            # JSON of protobuf has 64-bit integers as strings.
            "sizeBytes": str(len(data)),
            "mimeType": "application/jsonl",
            "state": "ACTIVE",
            "uri": f"{self._url()}/v1beta/{number}",
            "downloadUri": f"{self._url()}/v1beta/{number}:download?alt=media",
        }


def json_page(value: Any) -> HttpResponse:
    """A page of JSON."""
    return HttpResponse(200, _encode(value), {"content-type": "application/json"})


def object_of(http: HttpRequest) -> dict[str, Any]:
    """The object in the body of a request.

    raises: BadRequest
    """
    try:
        return _decode(http.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BadRequest("the body is not a JSON object", status=400) from None


def _form_file(http: HttpRequest) -> tuple[str, bytes]:
    """Name and content of the file of a form.

    raises: BadRequest
    """
    kind = http.headers.get("content-type", "")
    # A form is MIME. The body is complete here, and the reader of aiohttp needs a stream.
    message = BytesParser().parsebytes(f"content-type: {kind}\r\n\r\n".encode() + http.body)
    parts = message.get_payload()
    for part in parts if isinstance(parts, list) else ():
        if part.get_param("name", header="content-disposition") == "file":  # type: ignore[union-attr]
            data = part.get_payload(decode=True)  # type: ignore[union-attr]
            return part.get_filename() or "file", data if isinstance(data, bytes) else b""  # type: ignore[union-attr]
    raise BadRequest("the form has no file", status=400)
