"""An MCP server of 2025-11-25 over stdio, line by line: one tool is a task only."""

from __future__ import annotations

import json
import sys

SCHEMA = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "now", "inputSchema": SCHEMA, "execution": {"taskSupport": "optional"}},
    {"name": "research", "inputSchema": SCHEMA, "execution": {"taskSupport": "required"}},
    {"name": "plain", "inputSchema": SCHEMA},
]
SERVER = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "tasks", "version": "1"},
}
RESULTS = {"initialize": SERVER, "tools/list": {"tools": TOOLS}, "ping": {}}

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked.get("method") in RESULTS:
        answer["result"] = RESULTS[asked["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
