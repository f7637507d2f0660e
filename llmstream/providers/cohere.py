"""The Command models over Cohere's own chat API, version 2.

- A version at the end of the address is removed.
- Before its calls a model may describe its next step, the *tool plan*. It arrives as reasoning, marked in
  the metadata, and goes back as tool plan.
- Citations become sources, one for each document or tool output; the metadata holds the citation with its
  place in the text. They go back with the answer they belong to.
- Texts to read (`Document` with a textual media type) become `documents` of the request. PDFs, audio and
  documents by URL are refused: extract the text first.
- `tool_choice` knows `REQUIRED` and `NONE`. A named tool is forced by sending no other.
- JSON output is refused by the vendor next to tools or documents; the request then goes into the prompt.
- Thinking is switched on or off and bounded by a budget; efforts are not known.
- Tool results have no error flag: `Error:` is put before the text where it is missing.
- Schemas that the answer or a strict tool is held to are cut to the vendor's subset: `oneOf` becomes
  `anyOf`, limits of numbers, lengths and lists go into descriptions, with a warning. An object without a
  required property requires its first one.
- JSON without a schema needs the word JSON in the prompt, or the answer may never end.
- Of the vendor's own fields, `citation_options`, `safety_mode`, `documents` and the like go through
  `provider_options={"cohere": {...}}`. A field it does not know is refused with 422.

Sources:

- <https://docs.cohere.com/reference/chat-stream> (seen 2026-11)
- <https://docs.cohere.com/reference/errors> (seen 2026-11)
- <https://docs.cohere.com/docs/structured-outputs> (seen 2026-11)
"""

from llmstream.dialects.cohere import Cohere
from llmstream.providers.base import Provider, without_version


def _without_version(address: str) -> str:
    """The dialect's path begins with /v2; older clients want the version in the address."""
    return without_version(address, "v1", "v2")


COHERE = Provider(
    name="cohere",
    title="Cohere",
    dialect=Cohere(),
    base_url="https://api.cohere.com",
    base_url_env=("CO_API_URL", "CO_BASE_URL", "COHERE_BASE_URL"),
    normalize=_without_version,
    key_env=("CO_API_KEY", "COHERE_API_KEY"),
    docs="https://docs.cohere.com/reference/chat-stream",
    notes="answers cite the request's documents and tool results; text and images only",
)
