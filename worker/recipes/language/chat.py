"""How a conversation becomes the text that a language model reads. Copied beside the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Message = dict[str, str]
BELOW = ("input", "context")  # columns of what stands below a prompt

# For a model that brings none; what an assistant said is marked for libraries that learn from whole conversations.
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}<|assistant|>\n"
    "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}\n"
    "{% else %}<|{{ message['role'] }}|>\n{{ message['content'] }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def with_template(tokenizer: Any) -> Any:
    """The tokenizer, with our template where it has none."""
    if not tokenizer.chat_template:
        tokenizer.chat_template = TEMPLATE
    return tokenizer


def prompt_text(tokenizer: Any, messages: Sequence[Message]) -> str:
    """The conversation so far, up to where the answer begins; without the mark that begins every text."""
    said = str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
    return said.removeprefix(tokenizer.bos_token or "")


def with_below(prompt: str, more: str) -> str:
    """A prompt with its input or context below it, where it has some."""
    return f"{prompt}\n\n{more.strip()}" if more.strip() else prompt


def asked(text: str) -> list[Message]:
    """A conversation that begins with this."""
    return [{"role": "user", "content": text}]


def text_of(content: object) -> str | None:
    """What a message says: a text, or parts of text, as some services write them; None for images and the like."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        return None
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    known = [text for text in texts if isinstance(text, str)]
    return "\n".join(known) if len(known) == len(texts) else None


def conversation(text: str) -> list[Message]:
    """What a cell asks: a chat as a JSON list up to its last question, or a plain prompt."""
    try:
        found = json.loads(text) if text.lstrip().startswith("[{") else []
        messages = [{"role": str(one["role"]), "content": text_of(one["content"]) or ""} for one in found]
    except (ValueError, KeyError, TypeError):
        return asked(text)
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    return messages or asked(text)
