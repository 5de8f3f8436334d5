"""``hearsay mcp`` in the client of the official ``mcp`` package, which starts it as agents do."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from support import ROOT, Daemon, Speech, heard, heard_as

TEXT = "The tide comes in at nine, and the harbour master will be waiting for you."


def test_an_agent_hears_and_says(daemon: Daemon, speech: Speech, tmp_path: Path) -> None:
    """The verb runs in this environment, which has the package; what it asks is the daemon."""
    arguments = ["-m", "hearsay", "mcp", "--url", daemon.url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HEARSAY_KEY": daemon.key}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=str(tmp_path))
    sound = tmp_path / "said.wav"

    async def use() -> dict[str, Any]:
        async with Client(server) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            wanted = {"path": str(speech.path), "language": "en"}
            return {
                "names": names,
                "heard": (await client.call_tool("transcribe", wanted)).structured_content,
                "voices": (await client.call_tool("list_voices", {})).structured_content,
                "said": await client.call_tool("say", {"text": TEXT, "file": str(sound)}),
                "again": await client.call_tool("say", {"text": TEXT, "file": str(sound)}),
                "none": await client.call_tool("transcribe", {"path": str(tmp_path / "none.wav")}),
            }

    told = asyncio.run(use())
    assert told["names"] == ["transcribe", "say", "list_voices"]
    assert told["heard"]["text"] == speech.text and told["heard"]["segments"]
    assert {voice["id"] for voice in told["voices"]["result"]} >= {"maeve", "owen"}
    assert not told["said"].is_error and heard_as(TEXT, heard(daemon, sound)) > 0.8
    assert told["again"].is_error and "exists" in told["again"].content[0].text
    assert told["none"].is_error and "none.wav" in told["none"].content[0].text
