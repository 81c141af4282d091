"""Reads which model a training begins with: a Hub id, a folder, or a model by its usual name; and how it is tuned."""

import re
from typing import Any

_FAMILIES = (
    r"(?:distil|al|ro|de|tiny|mobile|bio|sci|fin|m|flan|open|code|x|camem)*(?:bert|roberta|bertv?|electra|mpnet|minilm"
    r"|t5|bart|pegasus|marian|opus|gpt|llama|qwen|mistral|gemma|phi|smollm|pythia|bloom|falcon|resnet|vit|swin|convnext"
    r"|efficientnet|mobilenet|deit|dino|detr|yolos?|xlm|xlnet|nllb|chronos)[a-z]?\d*"
)
_NAMED = rf"(?=(?:[a-z0-9]+[-_.])*{_FAMILIES}(?![a-z]))"
MODEL = re.compile(
    rf"(?<![\w./-])({_NAMED}[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)+|(?:gpt|t5|resnet|vit|dinov)-?\d+)(?![\w/-])",
    re.IGNORECASE,
)
_BASE = re.compile(
    r"\b(?:fine-?tune|tune|model|base|backbone)\s*(?:=|:|is)?\s*[`\"“]?"
    r"([A-Za-z][\w.-]*/[\w.-]*\w|/[\w./-]*\w)(?!\w)"
    r"|(?<![\w./-])([A-Za-z][\w-]*/(?=[\w.-]*[\d-])[A-Za-z][\w.-]*\w)(?![\w/])",
    re.IGNORECASE,
)
_TUNED_BY = re.compile(r"\b(sft|dpo|grpo)\b", re.IGNORECASE)
_LORA_4BIT = re.compile(r"\bqlora\b|\b4[ -]?bit\b", re.IGNORECASE)
_MERGED = re.compile(
    r"\bmerged? (?:the )?(?:weights?|model|adapter|lora)\b|\b(?:weights?|adapter|lora) merged\b|\bmerge\s*[=:]\s*true\b"
    r"|\b(?:adapter|gewichte)\b.{0,20}\b(?:verschmelz\w*|zusammenführen)\b|\bfusionne[rz]?\b|\bpoids fusionnés\b"
    r"|[,;，；]\s*(?:最后|然后|并)?\s*merge\b|最后\s*merge|\b(?:am ende|zum schluss|à la fin"
    r"|al final)\s+(?:\w+\s+)?merg\w+"
    r"|\bfusiona\w*\b|\bpesos fusionados\b|合并(?:权重|模型)?",
    re.IGNORECASE,
)


def model_in(asked: str) -> dict[str, str]:
    """The model to begin with."""
    found = _BASE.search(asked) or MODEL.search(asked)
    return {"model": next(filter(None, found.groups()))} if found else {}


def choices_in(asked: str) -> dict[str, Any]:
    """Settings that are no numbers: the model to begin with, how an LLM is tuned, whether its adapter is merged."""
    method = _TUNED_BY.search(asked)
    found = {
        "method": method.group(1).lower() if method else "",
        "quantization": "4bit" if _LORA_4BIT.search(asked) else "",
        "merge": bool(_MERGED.search(asked)),
    }
    return model_in(asked) | {name: value for name, value in found.items() if value}
