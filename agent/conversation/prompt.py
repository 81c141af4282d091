"""What a language model is told beside the conversation, from `agent/prompts`, and how a message is written for it."""

import json
from pathlib import Path

from agent.ports import ModelMessage

PROMPTS = Path(__file__).parents[1] / "prompts"
SYSTEM = (PROMPTS / "system.md").read_text().strip()
RESEARCH = (PROMPTS / "research.md").read_text().strip()
SUMMARY = (PROMPTS / "summary.md").read_text().strip()


def as_read(said: ModelMessage) -> str:
    """A message's words with the facts about it, in the form that the system's word explains."""
    lines = [f"[from {_quoted(said.speaker)}{', a guest' if said.guest else ''}]"] if said.speaker else []
    lines.append(f"[monitor] {said.text}" if said.noticed else said.text)
    lines += [f"[file: {_quoted(file.name)}, {file.size_bytes} bytes]" for file in said.files]
    lines += [f"[file refused: {_quoted(why)}]" for why in said.refused]
    if said.cut_chars:
        lines.append(f"[cut: {said.cut_chars} characters in all; read_more with id {said.id} shows the rest]")
    lines += [f"[note of Trainyard: {said.note}]"] if said.note else []
    return "\n".join(lines)


def _quoted(words: str) -> str:
    """What others chose, so that it cannot be taken for ours."""
    return json.dumps(words, ensure_ascii=False)
