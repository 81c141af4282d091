"""A finished model over HTTP: a real server on a real socket, as `trainyard serve` starts it."""

import base64
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from tests.recipes.folders import RunFolder, make_run, sklearn_csv
from tests.worker.conftest import eventually
from worker.serving.app import make_app

ROW = {"sepal_length_(cm)": 5.1, "sepal_width_(cm)": 3.5, "petal_length_(cm)": 1.4, "petal_width_(cm)": 0.2}


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = make_run(tmp_path_factory.mktemp("iris"), sklearn_csv("iris"), "kind")
    run.all_steps_here()
    return run


@pytest.fixture(scope="module")
def served(iris: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """From a tar, as a run leaves it."""
    tar = tmp_path_factory.mktemp("served") / "artifact.tar"
    with tarfile.open(tar, "w") as archive:
        for path in sorted((iris.dir / "artifacts").iterdir()):
            archive.add(path, arcname=path.name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", "from bot.start import main; main()", "serve", str(tar), "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        token = re.fullmatch(r"Token: (\S+) \(set .*\)\n", said)
        assert token, said + process.stdout.read()
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token.group(1)}"}, timeout=30
        ) as client:
            eventually(lambda: _answers(client), what="the server")
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM)


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.ConnectError:
        return False


def test_rows_are_answered_by_a_model_that_stays_loaded(served: httpx.Client) -> None:
    answer = served.post("/predict", json={"rows": [ROW, ROW]})
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["answers"]
    assert first == second
    assert (first["kind"], first["label"]) == ("label", "setosa")
    assert served.get("/health", headers={"Authorization": ""}).json()["needs"] == list(ROW)
    assert served.get("/model").json()["answer"] == "label"


def test_a_file_is_answered_with_a_file(served: httpx.Client) -> None:
    rows = sklearn_csv("iris").encode()
    answer = served.post("/predict/file", params={"name": "flowers.csv"}, content=rows)
    assert answer.status_code == 200, answer.text
    lines = answer.text.splitlines()
    assert len(lines) == 151
    assert "prediction" in lines[0]


@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic abc"])
def test_without_the_token_nothing_is_answered(served: httpx.Client, header: str) -> None:
    for path in ("/predict", "/predict/file"):
        answer = served.post(path, json={"rows": [ROW]}, headers={"Authorization": header})
        assert answer.status_code == 401
        assert "A token is needed" in answer.json()["detail"]
    assert served.get("/model", headers={"Authorization": header}).status_code == 401


def test_what_cannot_be_used_is_said_in_a_sentence(served: httpx.Client) -> None:
    lacking = served.post("/predict", json={"rows": [{"sepal_length_(cm)": 1}]})
    assert lacking.status_code == 400
    assert "Row 1 has no column" in lacking.json()["detail"]
    noise = served.post("/predict/file", content=b"\x00\x01")
    assert (noise.status_code, "rows.csv" in noise.json()["detail"]) == (400, True)
    assert served.post("/predict", json={"rows": "all"}).status_code == 422
    assert served.post("/predict", json={"rows": []}).json() == {"answers": []}


def test_the_interface_is_documented(served: httpx.Client) -> None:
    paths = served.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/health", "/model", "/predict", "/predict/file"}


def test_an_example_and_the_body_of_a_file_are_documented(served: httpx.Client) -> None:
    paths = served.get("/openapi.json").json()["paths"]
    body = paths["/predict"]["post"]["requestBody"]["content"]["application/json"]
    assert body["example"] == {"rows": [dict.fromkeys(ROW, "…")]}
    assert "$ref" in body["schema"]
    assert "application/octet-stream" in paths["/predict/file"]["post"]["requestBody"]["content"]


IMAGE_MODEL = """
from pathlib import Path

from PIL import Image


class Sizes:
    def __init__(self, paths):
        self.sizes = [Image.open(path).size for path in paths]

    def said(self):
        return [{"kind": "number", "value": width} for width, _ in self.sizes]


class Model:
    needs, added = ["image"], ["prediction"]

    def answers(self, columns):
        return Sizes(columns["image"])


def load(folder):
    return Model()
"""


async def test_a_model_for_images_takes_their_bytes_and_opens_no_path(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(IMAGE_MODEL)
    Image.new("RGB", (7, 5)).save(tmp_path / "seven.png")
    picture = base64.b64encode((tmp_path / "seven.png").read_bytes()).decode()
    transport = httpx.ASGITransport(make_app(tmp_path, digests=()))
    async with httpx.AsyncClient(transport=transport, base_url="http://model") as client:
        rows = [{"image": picture}, {"image": f"data:image/png;base64,{picture}"}]
        answer = await client.post("/predict", json={"rows": rows})
        assert [one["value"] for one in answer.json()["answers"]] == [7, 7]
        refused = await client.post("/predict", json={"rows": [{"image": str(tmp_path / "seven.png")}]})
        assert refused.status_code == 400
        assert "The image of row 1 is not base64" in refused.json()["detail"]


def test_a_folder_without_a_model_is_refused_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "worker.serving", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "cannot be served" in done.stderr
    assert "model.py" in done.stderr
