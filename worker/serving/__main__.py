"""`python -m worker.serving FOLDER [--host H] [--port P]`: serve a model until SIGTERM. `trainyard serve` runs it."""

import argparse
import secrets
import sys
import tarfile
import tempfile
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from worker.serving.app import make_app
from worker.serving.way_in import digest_of
from worker.settings import Settings
from worker.supervisor.outputs import BadOutput, unpack


def main() -> None:
    """Exits 1 with a sentence when there is no model to serve."""
    parser = argparse.ArgumentParser(prog="trainyard serve", description="Serve a model over HTTP.")
    parser.add_argument("model", type=Path, help="the artifact of a run: its folder, or the tar of it")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=8080)
    asked = parser.parse_args()
    settings = Settings()
    token = settings.serve_token or secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="trainyard-") as place:
        try:
            app = make_app(_folder(asked.model.resolve(), Path(place)), digests=[digest_of(token)])
        except (OSError, ValueError, ImportError, BadOutput, tarfile.TarError) as error:
            sys.exit(f"{asked.model} cannot be served: {error}. Give a run, or its artifact, with its model.py.")
        _serve(app, asked, token if not settings.serve_token else "")


def _folder(model: Path, place: Path) -> Path:
    """The folder of the artifact; a tar is unpacked into `place`."""
    if model.is_dir():
        return model
    unpack(model, place)
    return place


def _serve(app: FastAPI, asked: argparse.Namespace, token: str) -> None:
    """Listen until SIGTERM; `token` is said where nobody chose it."""
    if token:
        print(f"Token: {token} (set TRAINYARD_SERVE_TOKEN to choose it)", flush=True)  # noqa: T201 - for whoever starts it
    print(f"Serving {asked.model} at http://{asked.host}:{asked.port}; the interface is at /docs.", flush=True)  # noqa: T201
    uvicorn.run(app, host=asked.host, port=asked.port, log_level="warning")


if __name__ == "__main__":
    main()
