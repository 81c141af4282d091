"""The HTTP interface of one model, which stays loaded. OpenAPI at `/docs` and `/openapi.json`.

Owns routes, token and limits; what a model answers is `worker.recipes.common.predict`. Run by
`python -m worker.serving`.
"""

import asyncio
import hashlib
import json
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field

from worker.recipes.common.predict import IMAGES, load_model, predict_file, predict_rows, takes_images
from worker.recipes.common.table import BadData

MOST_ROWS = 100_000
MOST_BYTES = 100 * 1024**2  # of a request
_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_BEARER = HTTPBearer(
    auto_error=False, description="The token that `trainyard serve` printed, or that was whispered in the chat."
)


class Rows(BaseModel):
    """What to answer for: objects of column and value, in the words of the training data."""

    rows: list[dict[str, Any]] = Field(max_length=MOST_ROWS)


class Answers(BaseModel):
    """An answer for each row, in their order; `kind` says which fields it has."""

    answers: list[dict[str, Any]] = Field(
        examples=[[{"kind": "label", "label": "yes", "probabilities": [["yes", 0.9]]}]]
    )


class FileAnswers(BaseModel):
    """A file's answers as csv; of images the first ones too, small, with their names and their own sizes."""

    csv: str
    pictures: list[dict[str, Any]] = []


class Health(BaseModel):
    """That it answers, and what it needs of each row."""

    status: str
    needs: list[str]


def make_app(folder: Path, *, digests: Sequence[str]) -> FastAPI:
    """The application for a model's folder. Each of `digests` is the SHA-256 of a token that may ask; none: all may.

    Raises:
        FileNotFoundError: there is no model in the folder.
    """
    model = load_model(folder)
    about = _about(folder)
    busy = asyncio.Lock()  # models are not made for two threads at a time
    app = FastAPI(title=f"Model {about.get('run', folder.name)}", summary=about.get("task", ""), version="1")

    def allowed(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]) -> None:
        said = hashlib.sha256(given.credentials.encode()).hexdigest() if given else ""
        if digests and not any(secrets.compare_digest(said, known) for known in digests):
            raise HTTPException(401, "A token is needed: send it as `Authorization: Bearer …`.")

    @app.exception_handler(BadData)
    async def refuse(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=400)

    @app.get("/health")
    async def health() -> Health:
        """Whether the model is loaded; needs no token."""
        return Health(status="ok", needs=list(model.needs))

    @app.get("/model", dependencies=[Depends(allowed)])
    async def of_model() -> dict[str, Any]:
        """What is known of the model: its task, its data, what it scored on sealed rows."""
        return about

    @app.post("/predict", dependencies=[Depends(allowed)], openapi_extra=_example(model))
    async def predict(asked: Rows) -> Answers:
        """Answers for rows."""
        async with busy:
            return Answers(answers=await asyncio.to_thread(predict_rows, model, asked.rows))

    @app.post("/predict/file", dependencies=[Depends(allowed)], response_class=Response, openapi_extra=_FILE)
    async def predict_of_file(request: Request, name: str = "rows.csv", *, pictures: bool = False) -> Response:
        """Answers for a file, which is the request's body: a table, or an image or a zip of images.

        Gives a csv; with `pictures` JSON, with the csv and small images that belong to the answers.
        """
        with tempfile.TemporaryDirectory() as place:
            rows, out = Path(place) / (Path(name).name or "rows.csv"), Path(place) / "answers"
            await _keep(request, rows)
            async with busy:
                await asyncio.to_thread(predict_file, model, rows, out)
            if not pictures:
                return Response(out.read_bytes(), media_type="text/csv; charset=utf-8")
            beside = out.with_suffix(IMAGES)
            found = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else []
            answers = FileAnswers(csv=out.read_text(encoding="utf-8"), pictures=found)
            return Response(answers.model_dump_json(), media_type="application/json")

    return app


def _example(model: Any) -> dict[str, Any]:
    """A request in the words of this model, for its documentation."""
    row = {name: "base64 of a picture" if takes_images(model) else "…" for name in model.needs}
    return {"requestBody": {"content": {"application/json": {"example": {"rows": [row]}}}}}


async def _keep(request: Request, path: Path) -> None:
    """Write a request's body. Raises: HTTPException where it is too large."""
    size = 0
    with path.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > MOST_BYTES:
                raise HTTPException(413, f"The file is larger than {MOST_BYTES // 1024**2} MB. Send it in parts.")
            file.write(chunk)


def _about(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("metrics.json", "model.json"):
        path = folder / name
        if path.is_file():
            found |= json.loads(path.read_text(encoding="utf-8"))
    return found
