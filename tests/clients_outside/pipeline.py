"""A service of pipecat in a pipeline of its own."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any


def piped(
    service: Any,
    pcm: bytes,
    rate: int,
    before: list[Any],
    enough: Callable[[list[Any]], bool],
    after: Sequence[Any] = (),
    begun: Callable[[], bool] = lambda: True,
) -> list[Any]:
    """Every frame that comes out of a pipeline of ``service`` while a recording goes in as from a microphone, once
    ``begun()`` holds."""
    from pipecat.frames.frames import Frame, InputAudioRawFrame
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.runner import PipelineRunner
    from pipecat.pipeline.task import PipelineParams, PipelineTask
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

    frames: list[Any] = []

    class Watch(FrameProcessor):
        async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
            await super().process_frame(frame, direction)
            frames.append(frame)
            await self.push_frame(frame, direction)

    async def run() -> None:
        pipeline = Pipeline([Watch(), service, Watch()])
        task = PipelineTask(pipeline, params=PipelineParams(audio_in_sample_rate=rate))
        running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
        await asyncio.sleep(1)
        await task.queue_frames(before)
        await asyncio.sleep(0.5)
        for _ in range(600):
            if begun():
                break
            await asyncio.sleep(0.1)
        size = rate // 50 * 2
        for start in range(0, len(pcm), size):
            await task.queue_frame(InputAudioRawFrame(pcm[start : start + size], rate, 1))
            await asyncio.sleep(0.01)
        await task.queue_frames(list(after))
        for _ in range(600):
            if enough(frames):
                break
            await asyncio.sleep(0.1)
        await task.cancel()
        await running

    asyncio.run(run())
    return frames
