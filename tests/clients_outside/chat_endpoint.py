"""A chat endpoint of OpenAI's shape for the daemon to ask: it says one sentence, or calls the tool it is offered."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REPLY = "The boats came home at nine."


class _Answer(BaseHTTPRequestHandler):
    requests: list[dict[str, Any]]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.requests.append(request)
        answered = any(message["role"] == "tool" for message in request["messages"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if request.get("tools") and not answered:
            function = {"name": request["tools"][0]["function"]["name"], "arguments": '{"place": "sea"}'}
            self._say({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
            self._say({}, "tool_calls")
        else:
            for word in REPLY.split(" "):
                self._say({"content": word + ("" if word == "nine." else " ")})
            self._say({}, "stop")
        self._event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 6}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, delta: dict[str, Any], finish: str | None = None) -> None:
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@contextmanager
def chat_endpoint() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address, and what it is asked."""
    requests: list[dict[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answer", (_Answer,), {"requests": requests}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
