"""Zhipu's service in China for its GLM models. Its accounts and keys are not those of `zai`, which refuses
them with a 401.

- The address of the coding plan is `https://open.bigmodel.cn/api/coding/paas/v4`.
- The wire is that of `zai`: thinking, streamed arguments, choices of tools, finish reasons.

Sources:

- <https://docs.bigmodel.cn/api-reference/%E6%A8%A1%E5%9E%8B-api/%E5%AF%B9%E8%AF%9D%E8%A1%A5%E5%85%A8>
  (seen 2026-11)
- <https://docs.bigmodel.cn/cn/guide/start/model-overview> (seen 2026-11)
"""

from dataclasses import replace

from llmstream.providers.zai import ZAI

BIGMODEL = replace(
    ZAI,
    name="bigmodel",
    title="BigModel (Zhipu)",
    base_url="https://open.bigmodel.cn/api/paas/v4",
    base_url_env=("BIGMODEL_BASE_URL", "BIGMODEL_API_BASE", "ZHIPUAI_BASE_URL"),
    key_env=("BIGMODEL_API_KEY", "ZHIPUAI_API_KEY", "ZHIPU_API_KEY"),
    aliases=("zhipu", "zhipuai"),
    docs="https://docs.bigmodel.cn/api-reference/%E6%A8%A1%E5%9E%8B-api/%E5%AF%B9%E8%AF%9D%E8%A1%A5%E5%85%A8",
    notes="the coding plan is at `/api/coding/paas/v4`; outside China `zai`",
)
