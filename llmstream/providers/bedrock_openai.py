"""OpenAI's and open models on Bedrock, by the wire of OpenAI.

- Examples are `bedrock-openai:openai.gpt-oss-120b-1:0` and `bedrock-openai:global.xai.grok-4.7`.
- The region is that of `AWS_REGION`, then `AWS_DEFAULT_REGION`, then the profile's in `~/.aws/config`, else
  us-east-1.
- Without a bearer key, requests are signed as for `bedrock`.
- An address without a path gets `/openai/v1`.
- Claude, Nova and Llama are not served on this wire: use `bedrock` for them. OpenAI's GPT-5 and later know
  more on `bedrock-responses`.
- Models that are only on Bedrock's other endpoint:
  `base_url="https://bedrock-mantle.{region}.api.aws/v1"`, where the region is put in too, and requests are
  signed for `bedrock-mantle`. A model under the wrong one of `/v1` and `/openai/v1` is refused with a
  message that names the right one.
- GPT-5.6 and later take tools on this wire with effort `none` only, which is then sent with a warning: use
  `bedrock-responses`.
- `stop` is left out with a warning: newer models refuse it, and in gpt-oss it silently ends the reasoning.
- gpt-oss puts its reasoning between `<reasoning>` tags in the text; they are removed. It has no
  structured output, so a schema goes into the prompt.
- The ids of calls may be `call_0`, `call_1`, repeated in each answer; these are replaced by unique ids.
- Images as data only; PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html> (seen 2026-11): the
  two endpoints
- <https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html> (not read)
- <https://github.com/openai/openai-python/blob/main/src/openai/providers/bedrock.py> (seen 2026-11): openai
  3.54, address, services of signatures
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/bedrock/chat/chat_completions> (seen 2026-11):
  litellm 1.109.1, what was tried there on 2026-10-09
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SchemaQuirks,
    SettingQuirks,
    ToolQuirks,
    change,
)
from llmstream.providers.base import with_path
from llmstream.providers.bedrock.provider import BedrockProvider
from llmstream.providers.bedrock.region import ADDRESS, bedrock_route
from llmstream.providers.bedrock.signing import sign_for_bedrock

BEDROCK_OPENAI = BedrockProvider(
    name="bedrock-openai",
    title="Amazon Bedrock (Chat Completions)",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            open_model_rules=True,
            media=MediaQuirks(files=False, audio_formats=frozenset(), image_urls=False),
            settings=SettingQuirks(
                # Tried by litellm on 2026-10-09: GPT-5.6, GPT-6 and Grok refuse stop, gpt-oss stops unseen
                # in its thoughts; calls are numbered from 0 in each answer; gpt-oss is held to no schema and
                # puts its thoughts between tags.
                unsupported=frozenset({"top_k", "stop"}),
            ),
            tools=ToolQuirks(numbered_call_ids=True),
            reasoning=ReasoningQuirks(tags="tags", tag="reasoning"),
            by_model=(
                ModelQuirks("gpt-oss", change(SchemaQuirks, output="none")),
                ModelQuirks(
                    # Grok refuses the penalties here as at xAI.
                    r"xai\.",
                    change(
                        SettingQuirks,
                        unsupported=frozenset({"top_k", "stop", "presence_penalty", "frequency_penalty"}),
                    ),
                    change(Quirks, reasoning_model_rules=False),
                ),
            ),
        )
    ),
    base_url=f"{ADDRESS}/openai/v1",
    base_url_env=("AWS_BEDROCK_BASE_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"),
    normalize=with_path("/openai/v1"),
    key_env=("AWS_BEARER_TOKEN_BEDROCK",),
    key_required=False,  # without one, requests are signed
    route=bedrock_route,
    sign=sign_for_bedrock,
    aliases=("bedrock-chat",),
    docs="https://docs.aws.amazon.com/bedrock/latest/userguide/endpoints.html",
    notes="as `bedrock`: `AWS_REGION`, and without a bearer key AWS credentials sign",
)
