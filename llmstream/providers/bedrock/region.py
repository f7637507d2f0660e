"""The AWS region, on which address and signature depend."""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.base import join

__all__ = ["ADDRESS", "MANTLE", "bedrock_route", "region_of", "service_of"]

# source: "Amazon Bedrock endpoints and quotas" in the AWS General Reference
ADDRESS: Final = "https://bedrock-runtime.{region}.amazonaws.com"

# source: "Endpoints supported by Amazon Bedrock" in its user guide, seen 2026-11
MANTLE: Final = "https://bedrock-mantle.{region}.api.aws"

# The last one is LiteLLM's.
_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_REGION_NAME")

_DEFAULT: Final = "us-east-1"
_REGION: Final = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+")
# Models of Bedrock's marketplace have ARNs of SageMaker.
_OF_ARN: Final = re.compile(r"arn:aws[a-z-]*:(?:bedrock|sagemaker):([a-z0-9-]+):")
# With FIPS endpoints, and hosts of private links, which have a prefix.
_OF_HOST: Final = re.compile(
    r"(?:^|\.)(bedrock-runtime|bedrock-mantle|aws-external-anthropic)(?:-fips)?\.([a-z0-9-]+)\."
)


def bedrock_route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The usual URL, with the region in the place of `{region}`; in China the domain ends otherwise."""
    if "{region}" in base_url:
        region = _region(env, model)
        base_url = base_url.replace("{region}", region)
        if region.startswith("cn-"):
            base_url = base_url.replace(f".{region}.amazonaws.com", f".{region}.amazonaws.com.cn")
    return join(base_url, http, model, env)


def region_of(url: str, env: Mapping[str, str]) -> str:
    """The region that a request is signed for: the address names it, else the environment.

    raises: InvalidRequest for what is no region's name
    """
    match = _OF_HOST.search(urlsplit(url).hostname or "")
    return match[2] if match else _region(env, "")


def service_of(url: str) -> str | None:
    """The name under which requests to a host of AWS are signed; None for any other host.

    source: openai 3.54 and anthropic 2.12, seen 2026-11
    """
    match = _OF_HOST.search(urlsplit(url).hostname or "")
    if match is None:
        return None
    return "bedrock" if match[1] == "bedrock-runtime" else match[1]


def _region(env: Mapping[str, str], model: str) -> str:
    """From a model's ARN, the environment, the profile's configuration; else us-east-1.

    What an ARN names exists in its own region only.
    """
    arn = _OF_ARN.match(model)
    region = (
        (arn[1] if arn else "")
        or next((env[name].strip() for name in _VARIABLES if env.get(name, "").strip()), "")
        or _configured(env)
        or _DEFAULT
    )
    if not _REGION.fullmatch(region):
        raise InvalidRequest(f"{region!r} is not an AWS region. Set AWS_REGION, for example to us-east-1.")
    return region


def _configured(env: Mapping[str, str]) -> str:
    """The region in the file of AWS's command line; "" where there is none."""
    home = env.get("HOME") or env.get("USERPROFILE")
    named = env.get("AWS_CONFIG_FILE")
    if not named and not home:
        return ""
    path = Path(named) if named else Path(home or "") / ".aws" / "config"
    profile = env.get("AWS_PROFILE") or env.get("AWS_DEFAULT_PROFILE") or "default"
    # Raw: AWS's files have percent signs without a meaning.
    parser = configparser.RawConfigParser()
    try:
        parser.read(path.expanduser(), encoding="utf-8")
    # A region is found elsewhere; RuntimeError is that of a "~" without a home.
    except (OSError, ValueError, RuntimeError, configparser.Error):
        return ""
    # AWS's rule for its configuration file, unlike that of its credentials.
    section = profile if profile == "default" else f"profile {profile}"
    return parser.get(section, "region", fallback="").strip()
