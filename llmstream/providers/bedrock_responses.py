"""OpenAI's GPT models on Amazon Bedrock by the Responses API.

- An example is `bedrock-responses:us.openai.gpt-5.6-luna`.
- Address, region and credentials are those of `bedrock-openai`; AWS recommends this endpoint for new
  applications.
- MODEL is an inference profile of the GPT models: `us.openai...`, `global.openai...`; Bedrock's other
  endpoint has them without the prefix.
- Images and files are sent as bytes; `s3://` addresses stay.
- Responses are never produced in the background, and the vendor's own tools (web search) do not run
  there.
- gpt-oss, background responses and such tools are at Bedrock's other endpoint:
  `base_url="https://bedrock-mantle.{region}.api.aws/v1"` (gpt-oss, which takes `tool_choice` auto alone) or
  `.../openai/v1` (GPT-5 and later). There, the ids of calls restart at `call_0` in each answer
  (pydantic-ai#6536).
- Encrypted reasoning of OpenAI's own service is not read here, nor the reverse.

Sources:

- <https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html> (seen 2026-11)
- <https://github.com/openai/openai-python/blob/main/src/openai/providers/bedrock.py> (seen 2026-11): openai
  3.54, address, services of signatures
- <https://github.com/pydantic/pydantic-ai/tree/main/pydantic_ai_slim/pydantic_ai/providers> (seen 2026-11):
  bedrock_mantle.py, tried there
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/bedrock/responses> (seen 2026-11): litellm
  1.109.1, profiles, images, tools
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import DeliveryQuirks, InputQuirks, OpenAIResponses, Quirks
from llmstream.providers.bedrock_openai import BEDROCK_OPENAI

BEDROCK_RESPONSES = replace(
    BEDROCK_OPENAI,
    name="bedrock-responses",
    title="Amazon Bedrock (Responses)",
    # On bedrock-runtime requests are synchronous, and images come from s3 or as bytes (seen 2026-11).
    dialect=OpenAIResponses(Quirks(delivery=DeliveryQuirks(background=False), input=InputQuirks(urls=False))),
    aliases=("bedrock-openai-responses",),
    docs="https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html",
    notes="OpenAI's GPT models on AWS; as `bedrock-openai` for region and key",
)
