"""One file to Slack: ask for an upload address, send the bytes, complete it, privately or into a thread.

Source: docs.slack.dev/messaging/working-with-files (November 2026). Called by `Pictures` and `Files`.
"""

import json
from pathlib import Path
from typing import Any

import aiohttp

from agent.domain.errors import Unavailable
from bot.slack.api import SlackApi

SILENT_S = 60.0  # a large file may take long, but not stand still for longer than this


async def upload(api: SlackApi, source: bytes | Path, name: str, *, alt: str = "", **where: str | None) -> str:
    """Slack's id of the new file. `where` is empty for a private file, else `channel_id` and `thread_ts`.

    Raises:
        Unavailable: Slack did not take the bytes; they may be sent again.
        AppError: as `SlackApi.call` does.
    """
    ticket: dict[str, Any] = await api.call(
        "files.getUploadURLExternal",
        filename=name,
        length=_length(source),
        alt_txt=alt or None,
    )
    await _send(api, source, ticket["upload_url"], name)
    files = json.dumps([{"id": ticket["file_id"], "title": name}])
    await api.call("files.completeUploadExternal", files=files, **where)
    return str(ticket["file_id"])


def _length(source: bytes | Path) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


async def _send(api: SlackApi, source: bytes | Path, url: str, name: str) -> None:
    patience = aiohttp.ClientTimeout(total=None, sock_connect=SILENT_S, sock_read=SILENT_S)
    try:
        if isinstance(source, bytes):
            status = await _post(api, url, source, patience)
        else:
            with source.open("rb") as file:  # aiohttp reads it in pieces, off the event loop
                status = await _post(api, url, file, patience)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unavailable(f"Slack did not take the file {name}: {type(error).__name__}.") from error
    if status != 200:
        raise Unavailable(f"Slack did not take the file {name} (HTTP {status}).")


async def _post(api: SlackApi, url: str, data: Any, patience: aiohttp.ClientTimeout) -> int:
    async with api.session.post(url, data=data, timeout=patience) as response:
        return response.status
