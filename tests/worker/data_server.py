"""A web server on loopback with files, a Hugging Face Hub and a Kaggle that serve one small data set each."""

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from huggingface_hub import DatasetCard

REVISION = "0123456789abcdef0123456789abcdef01234567"
HOUSES = b"rooms,price\n" + b"".join(b"%d,%d\n" % (at % 5, 100 * (at % 5) + at) for at in range(60))


def zipped(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


class DataServer:
    """`files` by path, `redirects` by path, `hub` files by data set, `kaggle` archives; `asked` are the requests."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.files: dict[str, tuple[str, bytes]] = {}
        self.redirects: dict[str, str] = {}
        self.hub: dict[str, dict[str, bytes]] = {}
        self.kaggle: dict[str, bytes] = {}
        self.cut: dict[str, int] = {}  # the connection ends after so many bytes
        self.asked: list[tuple[str, str]] = []  # path and Authorization


def _answer(server: DataServer, request: BaseHTTPRequestHandler) -> None:
    parts = urlsplit(request.path)
    path = parts.path
    server.asked.append((request.path, request.headers.get("Authorization", "")))
    if path in server.redirects:
        request.send_response(302)
        request.send_header("Location", server.redirects[path])
        request.send_header("Content-Length", "0")
        request.end_headers()
    elif path in server.files:
        kind, data = server.files[path]
        _send(request, data, {"Content-Type": kind}, cut=server.cut.get(path))
    elif path.startswith("/api/datasets/"):
        _send_info(server, request, path.removeprefix("/api/datasets/"))
    elif path.startswith("/datasets/") and "/resolve/" in path:
        name, _, rest = path.removeprefix("/datasets/").partition("/resolve/")
        file = server.hub.get(name, {}).get(rest.partition("/")[2])
        tag = hashlib.sha256(file or b"").hexdigest()
        headers = {"ETag": f'"{tag}"', "X-Repo-Commit": REVISION}
        _send(request, file, headers) if file is not None else _missing(request, "EntryNotFound")
    elif path.startswith("/api/v1/datasets/download/"):
        name = path.removeprefix("/api/v1/datasets/download/")
        if name in server.kaggle and "datasetVersionNumber" not in parse_qs(parts.query):
            server.files["/stored.zip"] = ("application/zip", server.kaggle[name])
            server.redirects["/once"] = f"{server.url}/stored.zip"
            request.send_response(302)
            request.send_header("Location", "/stored.zip")
            request.send_header("Content-Length", "0")
            request.end_headers()
        else:
            _missing(request, "NotFound")
    else:
        _missing(request, "NotFound")


def _send_info(server: DataServer, request: BaseHTTPRequestHandler, rest: str) -> None:
    name, _, of_tree = rest.partition("/tree/")
    name, _, revision = name.partition("/revision/")
    files = server.hub.get(name)
    if files is None:
        _missing(request, "RepoNotFound")
    elif of_tree:
        tree = [
            {"type": "file", "path": file, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for file, data in files.items()
        ]
        _send(request, json.dumps(tree).encode(), {"Content-Type": "application/json"})
    elif revision not in ("", "main", REVISION):
        _missing(request, "RevisionNotFound")
    else:
        siblings = [{"rfilename": file, "size": len(data)} for file, data in files.items()]
        info = {"_id": "1", "id": name, "sha": REVISION, "private": False, "gated": False, "disabled": False}
        info |= {"downloads": 0, "likes": 0, "tags": [], "siblings": siblings}
        if "README.md" in files:
            info["cardData"] = DatasetCard(files["README.md"].decode()).data.to_dict()
        _send(request, json.dumps(info).encode(), {"Content-Type": "application/json"})


def _missing(request: BaseHTTPRequestHandler, code: str) -> None:
    request.send_response(404)
    request.send_header("X-Error-Code", code)
    request.send_header("Content-Length", "0")
    request.end_headers()


def _send(request: BaseHTTPRequestHandler, data: bytes, headers: Mapping[str, str], cut: int | None = None) -> None:
    request.send_response(200)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(data if cut is None else data[:cut])
    if cut is not None:
        request.close_connection = True


@contextmanager
def data_server() -> Iterator[DataServer]:
    """Runs until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(server, self)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = DataServer(listening.server_address[1])
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
