"""Finds `gateway_parts` beside the tests; the addresses of ledgers."""

import sys
from pathlib import Path

import pytest

from tests.redis_servers import flushed

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty ledger, for any number of connections."""
    if request.param == "sqlite":
        return str(tmp_path / "gateway.db")
    pytest.importorskip("redis")
    return flushed(request.getfixturevalue("redis_server"))
