"""An MCP server whose tools stand in a JSON file. Standard library only, since it also runs in sandboxes.

Usage: mcp_server.py SPEC [LOG]. SPEC has `name`, `version` and `tools`: each has `name`, `description`, `inputSchema`
and optionally `outputSchema`, `annotations` and `does`, a list of steps: `{"text": ...}`, `{"structured": ...}`,
`{"block": ...}` (any content block), `{"error": ...}`, `{"write": [PATH, TEXT]}`, `{"append": [PATH, TEXT]}`, `{"exit":
STATUS}`, `{"sleep": SECONDS}`, `{"ask": PARAMS}` (asks the user, and answers what comes back), `{"raw": LINE}` (whose
`{id}` becomes that of the request, so that it is the answer),
`{"tools": [...]}` (adds tools, and says that the list has changed), `{"drop": NAME}`, `{"list_seconds": SECONDS}` (how
long later lists of tools take) and `{"count": true}` (how many calls this process has had). `{arguments}` in a text is
replaced by the arguments as JSON. Every call is appended to LOG. With `later`, a list of tools, the next start
offers those.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ERRORS = {"parse": -32700, "request": -32600, "method": -32601, "params": -32602}


class Server:
    def __init__(self, spec: dict[str, Any], log: str) -> None:
        self.spec, self.log = spec, log
        self.tools = list(spec["tools"])
        self.calls = 0
        self.ready = False
        self.id: Any = None

    def say(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "id" not in message:
                continue
            self.id = message["id"]
            try:
                self.say({"id": message["id"], "result": self.answer(message["method"], message.get("params") or {})})
            except KeyError as error:
                code = ERRORS.get(str(error.args[0]), ERRORS["params"])
                self.say({"id": message["id"], "error": {"code": code, "message": f"{message['method']}: {error}"}})

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            self.ready = True
            time.sleep(self.spec.get("start_seconds", 0))
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": self.spec["name"], "version": self.spec["version"]},
            }
        if not self.ready:
            raise KeyError("method")
        if method == "ping":
            return {}
        if method == "tools/list":
            time.sleep(self.spec.get("list_seconds", 0))
            shown = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
            return {"tools": [{k: tool[k] for k in shown if k in tool} for tool in self.tools]}
        if method == "tools/call":
            return self.call(params["name"], params.get("arguments") or {})
        raise KeyError("method")

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(json.dumps([name, arguments]) + "\n")
        tool = next(each for each in self.tools if each["name"] == name)
        result: dict[str, Any] = {"content": []}
        for step in tool.get("does", [{"text": "{arguments}"}]):
            self.step(step, arguments, result)
        return result

    def step(self, step: dict[str, Any], arguments: dict[str, Any], result: dict[str, Any]) -> None:
        ((kind, value),) = step.items()
        filled = value.replace("{arguments}", json.dumps(arguments)) if isinstance(value, str) else value
        if kind in ("text", "error"):
            result["content"].append({"type": "text", "text": filled})
            result["isError"] = kind == "error"
        elif kind == "structured":
            result["structuredContent"] = value
        elif kind == "block":
            result["content"].append(value)
        elif kind in ("write", "append"):
            path, text = value
            with Path(path).open("w" if kind == "write" else "a") as file:
                file.write(text.replace("{arguments}", json.dumps(arguments)))
        elif kind == "exit":
            sys.stderr.write("leaving\n")
            sys.stderr.flush()
            os._exit(value)
        elif kind == "sleep":
            time.sleep(value)
        elif kind == "raw":
            line = value.replace("{id}", json.dumps(self.id)) + "\n"
            sys.stdout.buffer.write(line.encode(errors="surrogateescape"))
            sys.stdout.flush()
        elif kind == "ask":
            self.say({"id": "question", "method": "elicitation/create", "params": value})
            while "result" not in (answer := json.loads(sys.stdin.readline())):
                pass
            result["content"].append({"type": "text", "text": json.dumps(answer["result"])})
        elif kind == "list_seconds":
            self.spec[kind] = value
        elif kind == "count":
            result["content"].append({"type": "text", "text": str(self.calls)})
        elif kind in ("tools", "drop"):
            if kind == "tools":
                self.tools += value
            else:
                self.tools = [each for each in self.tools if each["name"] != value]
            self.say({"method": "notifications/tools/list_changed"})


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    if later := given.pop("later", None):
        Path(sys.argv[1]).write_text(json.dumps(given | {"tools": later}))
    Server(given, sys.argv[2] if len(sys.argv) > 2 else "").serve()
