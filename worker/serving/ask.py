"""Asks a model that this host keeps up, for predictions in a thread. Called by `worker.scripts`."""

import http.client
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent.domain.errors import BadData
from worker.folders import RunFolder
from worker.serving.way_in import endpoint_of

_JSON = "application/json"


def served_rows(folder: RunFolder, rows: Sequence[Mapping[str, str]], *, limit_s: float) -> list[dict[str, Any]] | None:
    """An answer for each row; None where the model does not answer now. Raises `BadData`."""
    body = json.dumps({"rows": [dict(row) for row in rows]}).encode()
    said = _asked(folder, "/predict", body, _JSON, limit_s=limit_s)
    return None if said is None else list(json.loads(said)["answers"])


def served_file(folder: RunFolder, file: Path, name: str, *, limit_s: float) -> tuple[str, list[dict[str, Any]]] | None:
    """The file's rows with the answers, as csv, and the small images that belong to them.

    None where the model does not answer now. Raises `BadData`.
    """
    path = f"/predict/file?pictures=true&name={quote(name)}"
    said = _asked(folder, path, file.read_bytes(), "application/octet-stream", limit_s=limit_s)
    if said is None:
        return None
    answers = json.loads(said)
    return answers["csv"], answers["pictures"]


def _asked(folder: RunFolder, path: str, body: bytes, kind: str, *, limit_s: float) -> bytes | None:
    endpoint = endpoint_of(folder)
    if endpoint is None:
        return None
    connection = http.client.HTTPConnection(endpoint.address, endpoint.port, timeout=limit_s)
    headers = {"Authorization": f"Bearer {endpoint.token}", "Content-Type": kind}
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        said = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if answer.status == http.HTTPStatus.BAD_REQUEST:
        raise BadData(str(json.loads(said)["detail"]))
    return said if answer.status == http.HTTPStatus.OK else None
