"""A chat endpoint of OpenAI's shape for the daemon to ask, which streams as slowly as a model does.

Asked for the first time in a conversation it tells a long story, so that there is something to interrupt; asked again
it says one sentence. Where it is offered a tool, it calls it first.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REPLY = "The boats came home at nine."
STORY = " ".join(f"This is sentence number {n} of a very long story." for n in range(40))
TOKEN_SECONDS = 0.05
"""Between two words: 20 a second, as a small model on a small machine."""


class _Answer(BaseHTTPRequestHandler):
    requests: list[dict[str, Any]]
    story: bool

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.requests.append(request)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with suppress(ConnectionError):  # who is interrupted reads no further
            self._answer(request)

    def _answer(self, request: dict[str, Any]) -> None:
        roles = [message["role"] for message in request["messages"]]
        if request.get("tools") and "tool" not in roles:
            function = {"name": request["tools"][0]["function"]["name"], "arguments": '{"place": "sea"}'}
            self._say({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
            self._say({}, "tool_calls")
        else:
            first = roles.count("user") <= 1
            for place, word in enumerate((STORY if self.story and first else REPLY).split(" ")):
                self._say({"content": f" {word}" if place else word})
                time.sleep(TOKEN_SECONDS)
            self._say({}, "stop")
        self._event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 6}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, delta: dict[str, Any], finish: str | None = None) -> None:
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(
            b"data: " + json.dumps({"id": "1", "object": "chat.completion.chunk", **event}).encode() + b"\n\n"
        )
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@contextmanager
def chat_endpoint(*, story: bool = False) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address, and what it is asked; with ``story`` the first answer is one that can be interrupted."""
    requests: list[dict[str, Any]] = []
    handler = type("Answer", (_Answer,), {"requests": requests, "story": story})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
