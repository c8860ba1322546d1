"""The client under test of the official conformance suite: sinew, which calls every tool of the suite's server as its own client
wants: conformance_client.py URL
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import wire

# What the suite says of a scenario: calls of tools that it wants, and for which the schema is not enough.
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


def value(schema):
    """Returns a value for a schema of an argument."""
    if "default" in schema or "const" in schema:
        return schema.get("default", schema.get("const"))
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    simple = {"integer": 5, "number": 5, "boolean": True, "string": "text", "null": None}
    if kind == "object":
        return {name: value(inner) for name, inner in schema.get("properties", {}).items()}
    return [] if kind == "array" else simple.get(kind)


def settle(server, id):
    """Returns the answer to a request, and accepts every form on the way as it is."""
    while True:
        message = server.receive(60)
        if message is None:
            sys.exit("sinew ended")
        if message.get("method") == "elicitation/create":
            server.send({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept", "content": {}}})
        elif message.get("id") == id:
            return message


def main(url):
    work = Path(tempfile.mkdtemp())
    # Each scenario has a server of its own, with other tools.
    (Path(os.environ["XDG_STATE_HOME"]) / "sinew/mcp-servers/c.json").unlink(missing_ok=True)
    entry = f"tools.mcp_servers.c={{ url = {json.dumps(url)}, internal_only = false }}"
    with wire.Server(work, "--set", entry) as server:
        server.send(wire.request(0, "initialize", {"protocolVersion": wire.HANDSHAKE, "capabilities": {"elicitation": {}}, "clientInfo": wire.CLIENT}), wire.INITIALIZED)
        settle(server, 0)
        server.send(wire.request(1, "tools/list"))
        tools = {tool["name"]: tool for tool in settle(server, 1)["result"]["tools"] if tool["name"].startswith("c__")}
        calls = [(call["name"], call["arguments"]) for call in CONTEXT.get("toolCalls", [])]
        named = {name for name, _ in calls}
        for name, tool in tools.items():
            own = name.removeprefix("c__")
            schema = tool["inputSchema"]
            if own not in named and own not in ("list_resources", "read_resource", "list_prompts", "get_prompt"):
                arguments = {name: value(inner) for name, inner in schema.get("properties", {}).items()}
                if "schema" in arguments:
                    # The suite wants to see the schema of the other tool as it came.
                    arguments["schema"] = next(iter(tools.values()))["inputSchema"]
                calls.append((own, arguments))
        for number, (name, arguments) in enumerate(calls, 2):
            server.send(wire.tool_call(number, f"c__{name}", arguments))
            message = settle(server, number)
            print(name, json.dumps(arguments), "->", json.dumps(message.get("result", message.get("error")))[:500], file=sys.stderr)


main(sys.argv[-1])
