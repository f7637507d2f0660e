"""Zhipu's GLM models at its service in China."""

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
"""The same models as Z.ai's, with accounts and keys of their own."""
