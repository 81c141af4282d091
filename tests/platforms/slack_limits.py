"""What Slack refuses: sizes, layouts, rates, scopes. Source: docs.slack.dev (November 2026) and seen refusals."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from math import ceil

MARKDOWN_CHARS, ALL_BLOCKS_CHARS, BLOCKS = 12_000, 13_200, 50
UPDATE_TEXT_BYTES, POST_TEXT_CHARS = 4_000, 40_000
STREAM_S = 300.0
FILE_BYTES = 10**9
FILE_ID = re.compile(r"^F[A-Z0-9]{8,}$")

PER_MINUTE = {
    "chat.postMessage": 60,
    "chat.update": 50,
    "chat.delete": 50,
    "chat.postEphemeral": 100,
    "chat.startStream": 20,
    "chat.appendStream": 100,
    "chat.stopStream": 20,
    "conversations.replies": 50,
    "conversations.history": 50,
    "users.conversations": 50,
    "files.info": 100,
    "files.delete": 50,
    "files.getUploadURLExternal": 100,
    "files.completeUploadExternal": 100,
    "agents.sessions.setStatus": 50,
    "reactions.add": 50,
    "reactions.remove": 20,
    "users.info": 100,
}
BY_CHANNEL = {"chat.postMessage"}

SCOPES = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "chat.delete": "chat:write",
    "chat.postEphemeral": "chat:write",
    "chat.startStream": "chat:write",
    "chat.appendStream": "chat:write",
    "chat.stopStream": "chat:write",
    "conversations.replies": "channels:history",
    "conversations.history": "channels:history",
    "conversations.info": "channels:read",
    "users.conversations": "channels:read",
    "conversations.open": "im:write",
    "usergroups.users.list": "usergroups:read",
    "users.info": "users:read",
    "files.info": "files:read",
    "files.delete": "files:write",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "agents.sessions.setStatus": "assistant:write",
    "reactions.add": "reactions:write",
    "reactions.remove": "reactions:write",
}


class Rates:
    """A sliding minute per method; `scale` multiplies what is allowed."""

    def __init__(self, now: Callable[[], float], scale: float) -> None:
        self._now, self.scale = now, scale
        self._calls: dict[tuple[str, str], deque[float]] = {}

    def retry_after(self, method: str, channel: str) -> int:
        """0 if the call is within its rate (and counted), else seconds to wait."""
        allowed = PER_MINUTE.get(method)
        if allowed is None:
            return 0
        calls = self._calls.setdefault((method, channel if method in BY_CHANNEL else ""), deque())
        now = self._now()
        while calls and calls[0] <= now - 60:
            calls.popleft()
        if len(calls) >= max(1, int(allowed * self.scale)):
            return max(1, ceil(calls[0] + 60 - now))
        calls.append(now)
        return 0


def refused_blocks(blocks: object, file_ready: Callable[[str], bool]) -> tuple[str, str] | None:
    """Slack's error code and its reason, or None."""
    if not isinstance(blocks, list):
        return "invalid_blocks_format", "blocks must be a list"
    if len(blocks) > BLOCKS:
        return "invalid_blocks", f"no more than {BLOCKS} items allowed [json-pointer:/blocks]"
    for at, block in enumerate(blocks):
        for reason in _block(block, file_ready):
            return "invalid_blocks", f"{reason} [json-pointer:/blocks/{at}]"
    elements = [element for block in blocks for element in (*block.get("elements", []), block.get("accessory", {}))]
    ids = [element["action_id"] for element in elements if "action_id" in element]
    if len(ids) != len(set(ids)):
        return "invalid_blocks", "action_id is not unique"
    block_ids = [block["block_id"] for block in blocks if "block_id" in block]
    if len(block_ids) != len(set(block_ids)):
        return "invalid_blocks", "block_id is not unique"
    if sum(b["type"] == "table" for b in blocks) > 1:
        return "invalid_blocks", "only_one_table_allowed"
    if sum(len(b["text"]) for b in blocks if b["type"] == "markdown") > MARKDOWN_CHARS:
        return "invalid_blocks", "markdown blocks hold more than 12000 characters together"
    if sum(map(len, texts(blocks))) > ALL_BLOCKS_CHARS:
        return "msg_blocks_too_long", "msg_blocks_too_long"
    return None


def texts(node: object) -> Iterator[str]:
    """All words of blocks."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in {"text", "alt_text"} and isinstance(value, str):
                yield value
            else:
                yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)


def _block(block: dict, file_ready: Callable[[str], bool]) -> Iterator[str]:
    yield from _sized(block.get("block_id", "-"), 255)
    match block.get("type"):
        case "markdown":
            yield from _sized(block.get("text"), MARKDOWN_CHARS)
        case "header":
            yield from _object(block.get("text"), 150, {"plain_text"})
        case "section":
            yield from _section(block)
        case "context":
            elements = block.get("elements", [])
            if not 1 <= len(elements) <= 10:
                yield "context needs 1 to 10 elements"
            for element in elements:
                yield from _object(element, 3000, {"mrkdwn", "plain_text"})
        case "actions":
            elements = block.get("elements", [])
            if not 1 <= len(elements) <= 25:
                yield "actions needs 1 to 25 elements"
            for element in elements:
                yield from _button(element)
        case "image":
            yield from _image(block, file_ready)
        case "table":
            yield from _table(block)
        case "rich_text":
            if not block.get("elements"):
                yield "rich_text needs elements"
            for element in block["elements"]:
                if any(not leaf.get("text") for leaf in element["elements"] if leaf["type"] == "text"):
                    yield "must be more than 0 characters"
        case "divider":
            pass
        case other:
            yield f"unsupported type: {other}"


def _section(block: dict) -> Iterator[str]:
    if "text" in block:
        yield from _object(block["text"], 3000, {"mrkdwn", "plain_text"})
    elif not block.get("fields"):
        yield "section needs text or fields"
    if len(block.get("fields", [])) > 10:
        yield "no more than 10 fields"
    for field in block.get("fields", []):
        yield from _object(field, 2000, {"mrkdwn", "plain_text"})
    match block.get("accessory", {"type": None}).get("type"):
        case None:
            pass
        case "multi_static_select":
            yield from _menu(block["accessory"])
        case _:
            yield from _button(block["accessory"])


def _menu(element: dict) -> Iterator[str]:
    """Multi-selects stand in sections and inputs only.

    docs.slack.dev/reference/block-kit/block-elements/multi-select-menu-element and …/composition-objects/option-object;
    an empty `initial_options` was seen refused (maxchehab/phelia, pull request 23). That more is chosen at first than
    `max_selected_items` allows, and that a value comes twice, is refused here to be on the safe side.
    """
    options, taken = element.get("options", []), element.get("initial_options")
    yield from _object(element.get("placeholder", {"type": "plain_text", "text": "-"}), 150, {"plain_text"})
    yield from _sized(element.get("action_id", "-"), 255)
    if not 1 <= len(options) <= 100:
        yield "options needs 1 to 100 items"
    for option in options:
        yield from _object(option.get("text"), 75, {"plain_text"})
        yield from _sized(option.get("value"), 150)
    if len({option.get("value") for option in options}) != len(options):
        yield "values are not unique"
    if taken is not None and (not taken or any(option not in options for option in taken)):
        yield "must be one of the provided options"
    most = element.get("max_selected_items", 1)
    if not isinstance(most, int) or most < 1 or len(taken or ()) > element.get("max_selected_items", 100):
        yield "max_selected_items"


def _button(element: dict) -> Iterator[str]:
    if element.get("type") != "button":
        yield f"unsupported element: {element.get('type')}"
        return
    yield from _object(element.get("text"), 75, {"plain_text"})
    yield from _sized(element.get("value", "-"), 2000)
    yield from _sized(element.get("action_id", "-"), 255)
    if element.get("style", "primary") not in {"primary", "danger"}:
        yield "invalid style"
    if confirm := element.get("confirm"):
        yield from _object(confirm.get("title"), 100, {"plain_text"})
        yield from _object(confirm.get("text"), 300, {"plain_text", "mrkdwn"})
        yield from _object(confirm.get("confirm"), 30, {"plain_text"})
        yield from _object(confirm.get("deny"), 30, {"plain_text"})


def _image(block: dict, file_ready: Callable[[str], bool]) -> Iterator[str]:
    yield from _sized(block.get("alt_text"), 2000)
    file_id = block.get("slack_file", {}).get("id", "")
    if "slack_file" in block and not FILE_ID.match(file_id):
        yield "input must match regex pattern: ^[F][A-Z0-9]{8,}$"
    elif "slack_file" in block and not file_ready(file_id):
        yield "invalid slack file"
    elif "slack_file" not in block and "image_url" not in block:
        yield "image needs slack_file or image_url"


def _table(block: dict) -> Iterator[str]:
    rows = block.get("rows", [])
    if not 1 <= len(rows) <= 100:
        yield "table needs 1 to 100 rows"
    if any(not 1 <= len(row) <= 20 for row in rows):
        yield "a row needs 1 to 20 cells"
    if sum(map(len, texts(rows))) > 10_000:
        yield "table is too large"
    for cell in (cell for row in rows for cell in row):
        if cell.get("type") != "raw_text" or not cell.get("text"):
            yield "bad cell"


def _object(value: object, limit: int, kinds: set[str]) -> Iterator[str]:
    if not isinstance(value, dict) or value.get("type") not in kinds:
        yield f"expected a text object of {sorted(kinds)}"
        return
    yield from _sized(value.get("text"), limit)


def _sized(text: object, limit: int) -> Iterator[str]:
    if not isinstance(text, str) or not text:
        yield "must be more than 0 characters"
    elif len(text) > limit:
        yield f"must be less than {limit + 1} characters"
