"""Fun-ASR-Nano's conversation.

``<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n<|im_start|>user\\n语音转写成中文：`` · audio rows ·
``<|im_end|>\\n<|im_start|>assistant\\n``. Source: funasr, models/fun_asr_nano/model.py (get_prompt, data_load_speech).
"""

from collections.abc import Sequence
from typing import Final

from tokenizers import Tokenizer

from engines.manifest import FunAsr
from streaming.prompt import Answer, Prompt

NAMES: Final = {
    "zh": "中文", "en": "英文", "yue": "粤语", "ja": "日文", "ko": "韩文", "vi": "越南语", "id": "印尼语", "th": "泰语",
    "ms": "马来语", "fil": "菲律宾语", "ar": "阿拉伯语", "hi": "印地语", "bg": "保加利亚语", "hr": "克罗地亚语",
    "cs": "捷克语", "da": "丹麦语", "nl": "荷兰语", "et": "爱沙尼亚语", "fi": "芬兰语", "el": "希腊语",
    "hu": "匈牙利语", "ga": "爱尔兰语", "lv": "拉脱维亚语", "lt": "立陶宛语", "mt": "马耳他语", "pl": "波兰语",
    "pt": "葡萄牙语", "ro": "罗马尼亚语", "sk": "斯洛伐克语", "sl": "斯洛文尼亚语", "sv": "瑞典语",
}  # fmt: skip
"""ISO code → the name that the model was trained with (Fun-ASR, README)."""
CONTEXT: Final = (
    "请结合上下文信息，更加准确地完成语音转写任务。如果没有相关信息，我们会留空。\n\n\n"
    "**上下文信息：**\n\n\n热词列表：[{}]\n"
)
SCRIPTS: Final = (
    ("ja", "\u3040", "\u30ff"),
    ("ko", "\uac00", "\ud7a3"),
    ("th", "\u0e00", "\u0e7f"),
    ("zh", "\u4e00", "\u9fff"),
)
"""Languages whose words are told by their script, and its range; kana before the characters that it stands among."""


class FunAsrPrompt(Prompt):
    """As :class:`Prompt`. The model does not say which language it hears: where none is forced, the script of its text
    tells those that are written in one of their own."""

    def __init__(self, tokenizer: Tokenizer, spec: FunAsr, *, leading_space: bool) -> None:
        self._spec = spec
        super().__init__(tokenizer, leading_space=leading_space)

    def _template(self) -> None:
        system = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" if self._spec.system else ""
        self._before = f"{system}<|im_start|>user\n"
        thoughts = "" if self._spec.think else "<think>\n\n</think>\n\n"
        self._suffix = self._ids(f"<|im_end|>\n<|im_start|>assistant\n{thoughts}")

    def head(self, keyterms: Sequence[str], language: str | None = None) -> list[int]:
        terms = ", ".join(" ".join(term.split()) for term in keyterms)
        context = CONTEXT.format(terms) if terms else ""
        # A language that this model has no name for is left to it.
        name = NAMES.get(language or "")
        return self._ids(f"{self._before}{context}语音转写{f'成{name}' if name else ''}：")

    def suffix(self, language: str | None) -> list[int]:
        return list(self._suffix)

    def answer(self, tokens: Sequence[int], language: str | None) -> Answer:
        text = self.text(tokens)
        if language is None:
            found = (code for code, first, last in SCRIPTS if any(first <= letter <= last for letter in text))
            language = next(found, None)
        return Answer(language, tuple(tokens), text)
