"""Where requests to Bedrock go."""

from __future__ import annotations

import pytest

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.bedrock.region import ADDRESS, MANTLE, bedrock_route, region_of, service_of

HTTP = HttpRequest("/model/m%3A0/converse-stream")
ARN = "arn:aws:bedrock:ap-south-1:123456789012:inference-profile/x"


def host(env, model="m", base_url=ADDRESS):
    url = bedrock_route(base_url, HTTP, model, env).url
    assert url.endswith("/model/m%3A0/converse-stream")
    return url.split("/")[2]


def test_region_comes_from_env_or_arn():
    """Else it is the default."""
    assert host({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "x"}) == (
        "bedrock-runtime.eu-west-1.amazonaws.com"
    )
    assert host({"AWS_REGION_NAME": "us-west-2"}) == "bedrock-runtime.us-west-2.amazonaws.com"
    assert host({}, ARN) == "bedrock-runtime.ap-south-1.amazonaws.com"
    assert host({"AWS_REGION": "us-west-2"}, ARN) == "bedrock-runtime.ap-south-1.amazonaws.com"
    assert host({}) == "bedrock-runtime.us-east-1.amazonaws.com"


def test_the_region_of_the_profile_counts(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        "[default]\nregion = eu-north-1\n[profile work]\nregion=sa-east-1\n"
    )
    assert "eu-north-1" in host({"HOME": str(tmp_path)})
    assert "sa-east-1" in host({"HOME": str(tmp_path), "AWS_PROFILE": "work"})
    assert "us-east-1" in host({"HOME": str(tmp_path), "AWS_PROFILE": "nobody"})
    named = {"AWS_CONFIG_FILE": str(tmp_path / ".aws" / "config")}
    assert "eu-north-1" in host(named)
    (tmp_path / ".aws" / "config").write_bytes(b"\xff no such file [")
    assert "us-east-1" in host(named)


def test_china_has_a_domain_of_its_own():
    assert host({"AWS_REGION": "cn-north-1"}) == "bedrock-runtime.cn-north-1.amazonaws.com.cn"


def test_region_may_be_inside_the_address():
    assert host({"AWS_REGION": "cn-north-1"}, base_url=f"{ADDRESS}/openai/v1") == (
        "bedrock-runtime.cn-north-1.amazonaws.com.cn"
    )
    assert host({"AWS_REGION": "eu-west-1"}, base_url=f"{MANTLE}/v1") == "bedrock-mantle.eu-west-1.api.aws"


def test_another_address_is_taken_as_it_is():
    assert host({"AWS_REGION": "eu-west-1"}, base_url="http://localhost:8000") == "localhost:8000"


@pytest.mark.parametrize("region", ["evil.example/", "us east", "x"])
def test_what_is_no_region_is_refused(region):
    with pytest.raises(InvalidRequest):
        host({"AWS_REGION": region})


def test_signature_uses_the_address_region():
    env = {"AWS_REGION": "us-west-2"}
    assert region_of("https://bedrock-runtime.eu-west-1.amazonaws.com/x", env) == "eu-west-1"
    assert region_of("https://bedrock-runtime-fips.us-east-2.amazonaws.com/x", env) == "us-east-2"
    vpc = "https://vpce-1.bedrock-runtime.eu-central-1.vpce.amazonaws.com/x"
    assert region_of(vpc, env) == "eu-central-1"
    assert region_of("https://proxy.example/x", env) == "us-west-2"


def test_signature_uses_the_host_service():
    assert service_of("https://bedrock-runtime.eu-west-1.amazonaws.com/x") == "bedrock"
    assert service_of("https://bedrock-mantle.eu-west-1.api.aws/v1/x") == "bedrock-mantle"
    assert service_of("https://aws-external-anthropic.us-east-2.api.aws/x") == "aws-external-anthropic"
    assert service_of("https://proxy.example/x") is None
    assert region_of("https://bedrock-mantle.eu-west-1.api.aws/v1/x", {}) == "eu-west-1"
