"""Data that nobody attached: fetched from real servers, at an exact revision, within limits, from allowed places."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from agent.domain.errors import AppError, BadData, NotAllowed, NotFound, Unavailable
from agent.domain.orders import Fetched, FetchOrder
from agent.domain.sources import HubSource, KaggleSource, source_of
from tests.worker.data_server import HOUSES, REVISION, DataServer, data_server, zipped
from worker.client.blobs import FolderBlobs
from worker.fetching import rows as script
from worker.fetching.fetcher import Fetcher
from worker.folders import HostFolder
from worker.recipes.common.table import read_table
from worker.scripts import Scripts
from worker.settings import Settings

if TYPE_CHECKING:
    import datasets

CSV = "text/csv"


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Loaded with the first test of this file; each worker of the suite reads the file."""
    global datasets
    import datasets


@pytest.fixture
def web() -> Iterator[DataServer]:
    with data_server() as server:
        server.files["/houses.csv"] = (CSV, HOUSES)
        yield server


def rows_here(data: Path, source: HubSource, work: Path) -> dict[str, Any]:
    """What the script makes of a data set, within this process, which has the libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        try:
            return script.made(data, source.name, config=source.config or "", split=source.split or "")
        except script.BadData as error:
            raise BadData(str(error)) from error


class Host:
    """A host without a queue. `apart`: the rows of a data set are read in a process of their own, as they should."""

    def __init__(self, home: Path, web: DataServer, *, apart: bool = True, **settings: Any) -> None:
        given = Settings(**({"fetch_inside": "127.0.0.1/32", "hub": web.url, "kaggle": web.url} | settings))
        self.blobs = FolderBlobs(home / "blobs")
        folder = HostFolder.of(home, "here")
        scripts = Scripts(self.blobs, folder, tier="none")
        self.home = folder.path
        self._fetcher = Fetcher(self.blobs, given, rows=scripts.rows if apart else rows_here, home=folder.path)

    def fetch(self, address: str, *, limit_bytes: int = 1_000_000) -> Fetched:
        return self._fetcher.fetch(FetchOrder(source=source_of(address), limit_bytes=limit_bytes))

    def content(self, fetched: Fetched) -> bytes:
        return self.blobs.get_file(fetched.dataset.sha256).read_bytes()


@pytest.fixture
def host(tmp_path: Path, web: DataServer) -> Host:
    return Host(tmp_path, web)


@pytest.fixture
def near(tmp_path: Path, web: DataServer) -> Host:
    """The same host, which reads rows within this process: that is quicker by the start of another one."""
    return Host(tmp_path, web, apart=False)


def test_a_file_from_the_web_with_its_name_and_where_it_is_from(host: Host, web: DataServer) -> None:
    web.redirects["/moved"] = "/houses.csv"
    for address in (f"{web.url}/houses.csv", f"{web.url}/moved"):
        fetched = host.fetch(address)
        assert host.content(fetched) == HOUSES
        assert fetched.dataset.origin == source_of(address)
    assert host.fetch(f"{web.url}/houses.csv").dataset.name == "houses.csv"
    assert not list(host.home.glob("fetch-*"))  # nothing is left of the downloads


@pytest.mark.parametrize(
    ("packed", "name", "address"),
    [
        (gzip.compress(HOUSES), "houses.csv", "/houses.csv.gz"),
        (zipped({"README.txt": b"x", "in/houses.csv": HOUSES}), "houses.csv", "/all.zip"),
        (zipped({"a.csv": b"x,y\n1,2\n", "in/houses.csv": HOUSES}), "houses.csv", "/all.zip#houses.csv"),
    ],
)
def test_what_is_packed_is_unpacked(host: Host, web: DataServer, packed: bytes, name: str, address: str) -> None:
    web.files[address.partition("#")[0]] = ("application/octet-stream", packed)
    fetched = host.fetch(web.url + address)
    assert (fetched.dataset.name, host.content(fetched)) == (name, HOUSES)


def test_an_archive_of_images_stays_one(host: Host, web: DataServer) -> None:
    data = zipped({"cat/1.png": b"\x89PNG", "dog/2.png": b"\x89PNG", "labels.csv": b"a,b\n"})
    web.files["/pets.zip"] = ("application/zip", data)
    assert host.content(host.fetch(f"{web.url}/pets.zip")) == data


def _wrong(web: DataServer) -> list[tuple[str, type[AppError], str]]:
    web.files["/page.csv"] = ("text/html; charset=utf-8", b"<html>")
    web.files["/large.csv"] = (CSV, b"x" * 1_000_001)
    web.files["/bomb.csv.gz"] = ("application/gzip", gzip.compress(bytes(2_000_000)))
    web.files["/two.zip"] = ("application/zip", zipped({"a.csv": b"x", "b.csv": b"x"}))
    web.files["/broken.zip"] = ("application/zip", b"PK\x03\x04 and no more")
    web.files["/cut.csv"], web.cut["/cut.csv"] = (CSV, HOUSES), 10
    web.files["/empty.csv"] = (CSV, b"")
    web.redirects |= {"/loop.csv": "/loop.csv", "/inside.csv": "http://127.0.0.2/x.csv", "/odd.csv": "file:///etc/x"}
    return [
        ("/nothing.csv", BadData, "There is nothing at"),
        ("/page.csv", BadData, "is a web page, not a file of data"),
        ("/large.csv", BadData, "up to 1 MB are fetched"),
        ("/bomb.csv.gz", BadData, "unpacks to more than 1 MB"),
        ("/two.zip", BadData, "has 2 files of data. Say which one: `a.csv`, `b.csv`"),
        ("/two.zip#c.csv", BadData, "has no file `c.csv`"),
        ("/broken.zip", BadData, "cannot be unpacked"),
        ("/cut.csv", Unavailable, "could not be fetched|broke off"),
        ("/empty.csv", BadData, "is empty"),
        ("/loop.csv", BadData, "redirects more than 5 times"),
        ("/inside.csv", NotAllowed, "127.0.0.2 is not a public address"),
        ("/odd.csv", NotAllowed, "only http and https"),
    ]


def test_each_refusal_is_a_sentence(host: Host, web: DataServer) -> None:
    for address, kind, words in _wrong(web):
        with pytest.raises(kind, match=words):
            host.fetch(web.url + address)
    assert not list(host.home.glob("fetch-*"))


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:{port}/houses.csv", "http://localhost:{port}/houses.csv", "http://[::1]:{port}/houses.csv",
     "http://[::ffff:127.0.0.1]:{port}/houses.csv", "http://2130706433:{port}/houses.csv",
     "http://169.254.169.254/latest.csv", "http://10.0.0.1/x.csv"],
)  # fmt: skip
def test_what_is_not_public_is_not_reached(tmp_path: Path, web: DataServer, address: str) -> None:
    host = Host(tmp_path, web, fetch_inside="")
    with pytest.raises((NotAllowed, Unavailable), match=r"is not a public address|There is no server"):
        host.fetch(address.format(port=web.url.rpartition(":")[2]))
    assert web.asked == []


def test_a_data_set_of_the_hub_at_its_commit(host: Host, near: Host, web: DataServer) -> None:
    web.hub["o/houses"] = {
        "README.md": b"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: a.csv\n"
        b"  - split: test\n    path: b.csv\n---\n",
        "a.csv": HOUSES,
        "b.csv": HOUSES,
    }
    fetched = host.fetch("hf:o/houses")
    assert fetched.dataset.origin == HubSource(name="o/houses", revision=REVISION)
    assert fetched.notes == ("The parts `train` and `test` were taken together; a column says which row is of which.",)
    assert fetched.dataset.name == "houses.parquet"
    table = read_table(host.blobs.get_file(fetched.dataset.sha256), name=fetched.dataset.name)
    assert (table.names, table.rows) == (["rooms", "price", "part"], 120)
    assert table.columns["part"] == ["train"] * 60 + ["test"] * 60
    assert fetched.dataset == near.fetch(f"hf:o/houses@{REVISION}").dataset
    one = near.fetch("hf:o/houses:test")
    assert (one.dataset.name, one.notes) == ("houses-test.parquet", ("The part `test` was taken, not `train`.",))
    for address, kind, words in (
        ("hf:o/none", NotFound, "There is no data set `o/none`"),
        ("hf:o/houses@v9", NotFound, "has no revision `v9`"),
        ("hf:o/houses:dev", BadData, "has no part `dev`\\. It has train, test"),
        ("hf:o/houses/small", BadData, "Say which: default"),
    ):
        with pytest.raises(kind, match=words):
            (host if address.endswith(":dev") else near).fetch(address)  # of a process the sentence comes too
    with pytest.raises(BadData, match="up to 0 MB are fetched"):
        host.fetch("hf:o/houses", limit_bytes=500)


def stored(host: Host, web: DataServer, parts: dict[str, list[dict[str, Any]]], kinds: dict[str, Any]) -> Fetched:
    """What is fetched of a data set with these parts, which lies on the Hub as Parquet."""
    files = {}
    for part, rows in parts.items():
        made = io.BytesIO()
        datasets.Dataset.from_list(rows, features=datasets.Features(kinds)).to_parquet(made)
        files[f"data/{part}-0.parquet"] = made.getvalue()
    web.hub["o/made"] = files
    return host.fetch("hf:o/made")


def test_classes_in_lists_get_their_names_and_objects_become_columns(near: Host, web: DataServer) -> None:
    tags = datasets.ClassLabel(names=["O", "B-LOC"])
    kinds = {
        "tokens": datasets.List(datasets.Value("string")),
        "ner_tags": datasets.List(tags),
        "translation": {"en": datasets.Value("string"), "de": datasets.Value("string")},
    }
    row = {"tokens": ["in", "Bonn"], "ner_tags": [0, 1], "translation": {"en": "in Bonn", "de": "zu Bonn"}}
    fetched = stored(near, web, {"train": [row] * 3}, kinds)
    table = read_table(near.blobs.get_file(fetched.dataset.sha256), name=fetched.dataset.name)
    assert table.columns["ner_tags"][0] == '["O", "B-LOC"]'
    assert (table.columns["translation.en"][0], table.columns["translation.de"][0]) == ("in Bonn", "zu Bonn")
    assert set(table.names) == {"tokens", "ner_tags", "translation.en", "translation.de"}


def test_a_part_whose_labels_are_kept_back_is_not_measured_on(near: Host, web: DataServer) -> None:
    kinds = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    known, unknown = [{"text": "a", "label": 0}, {"text": "b", "label": 1}], [{"text": "c", "label": -1}]
    fetched = stored(near, web, {"train": known, "validation": known, "test": unknown}, kinds)
    table = read_table(near.blobs.get_file(fetched.dataset.sha256), name=fetched.dataset.name)
    assert table.columns["part"] == ["train", "train", "validation", "validation"]
    assert table.columns["label"] == ["no", "yes"] * 2
    assert fetched.notes[1] == "`test` was not taken."


@pytest.mark.parametrize("corners", [False, True])
def test_boxes_of_the_hub_stay_with_their_images(near: Host, web: DataServer, corners: bool) -> None:
    made = io.BytesIO()
    Image.new("RGB", (20, 10), "red").save(made, "png")
    box = [12.0, 2.0, 18.0, 8.0] if corners else [12.0, 2.0, 6.0, 6.0]
    inner = {"bbox": datasets.List(datasets.List(datasets.Value("float32"))),
             "category": datasets.List(datasets.ClassLabel(names=["cat", "dog"]))}  # fmt: skip
    row = {"image": {"bytes": made.getvalue(), "path": None}, "objects": {"bbox": [box], "category": [1]}}
    fetched = stored(near, web, {"train": [row] * 2}, {"image": datasets.Image(), "objects": inner})
    table = read_table(near.blobs.get_file(fetched.dataset.sha256), name=fetched.dataset.name)
    assert json.loads(table.columns["boxes"][0]) == [{"label": "dog", "box": [12.0, 2.0, 6.0, 6.0]}]


def test_only_the_files_of_the_configuration_are_fetched_and_counted(near: Host, web: DataServer) -> None:
    about = "---\nconfigs:\n" + "".join(
        f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/*.csv\n"
        for name in ("small", "large")
    )
    web.hub["o/two"] = {"README.md": f"{about}---\n".encode(), "small/a.csv": HOUSES, "large/a.csv": HOUSES * 50}
    assert near.fetch("hf:o/two/small", limit_bytes=3000).dataset.name == "two-small-train.parquet"
    assert not [path for path, _ in web.asked if "large" in path]
    with pytest.raises(BadData, match="up to 0 MB are fetched"):
        near.fetch("hf:o/two/large", limit_bytes=3000)
    with pytest.raises(BadData, match=r"has 2 configurations\. Say which: small, large"):
        near.fetch("hf:o/two")


def test_images_of_the_hub_become_an_archive_that_names_their_classes(host: Host, web: DataServer) -> None:
    def image(shade: int) -> bytes:
        made = io.BytesIO()
        Image.new("RGB", (8, 8), (shade, 0, 0)).save(made, "png")
        return made.getvalue()

    web.hub["o/pets"] = {f"{kind}/{at}.png": image(9 * at) for kind in ("cat", "dog") for at in range(3)}
    fetched = host.fetch("hf:o/pets")
    assert fetched.dataset.name == "pets-train.zip"
    with zipfile.ZipFile(host.blobs.get_file(fetched.dataset.sha256)) as archive:
        rows = list(csv.DictReader(io.TextIOWrapper(archive.open("labels.csv"))))
        assert [row["label"] for row in rows] == ["cat"] * 3 + ["dog"] * 3
        assert set(archive.namelist()) == {"labels.csv", *(row["image"] for row in rows)}


def test_a_file_of_kaggle_with_a_key_that_goes_no_further(tmp_path: Path, web: DataServer) -> None:
    host = Host(tmp_path, web, kaggle_token="k-123")
    web.kaggle["uciml/houses"] = zipped({"houses.csv": HOUSES, "more.csv": b"a\n1\n"})
    fetched = host.fetch("kaggle:uciml/houses/houses.csv")
    assert host.content(fetched) == HOUSES
    assert fetched.dataset.origin == KaggleSource(name="uciml/houses", member="houses.csv")
    assert [key for _, key in web.asked] == ["Bearer k-123", ""]


def test_the_token_of_the_hub_goes_to_the_hub_alone(
    near: Host, web: DataServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nowhere")
    monkeypatch.setenv("HF_TOKEN", "hf_abc")
    near.fetch(f"{web.url}/houses.csv")
    assert {key for _, key in web.asked} == {""}
    rows = [{"text": "a", "label": 0}, {"text": "b", "label": 1}]
    kinds = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    stored(near, web, {"train": rows}, kinds)
    assert {key for path, key in web.asked if path.startswith("/api/datasets/")} == {"Bearer hf_abc"}


def test_a_file_of_the_host_only_from_folders_that_it_allows(tmp_path: Path, web: DataServer) -> None:
    allowed, other = tmp_path / "data", tmp_path / "private"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "houses.csv").write_bytes(HOUSES)
    (allowed / "link.csv").symlink_to(other / "houses.csv")
    host = Host(tmp_path / "home", web, data_folders=str(allowed))
    assert host.content(host.fetch(f"{allowed}/houses.csv")) == HOUSES
    for path in (f"{other}/houses.csv", f"{allowed}/../private/houses.csv", f"{allowed}/link.csv"):
        with pytest.raises(NotAllowed, match="is in no folder that this host gives data from"):
            host.fetch(path)
    with pytest.raises(NotFound, match="There is no file"):
        host.fetch(f"{allowed}/none.csv")
    with pytest.raises(NotAllowed, match="TRAINYARD_DATA_FOLDERS"):
        Host(tmp_path / "home", web).fetch(f"{allowed}/houses.csv")


def test_a_folder_of_the_host_is_like_an_archive_of_it(tmp_path: Path, web: DataServer) -> None:
    made = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(made, "png")
    for kind in ("cat", "dog", ".hidden"):
        (tmp_path / "data/pets" / kind).mkdir(parents=True)
        (tmp_path / "data/pets" / kind / "1.png").write_bytes(made.getvalue())
    (tmp_path / "data/pets/cat/2.png").symlink_to("/etc/hostname")
    host = Host(tmp_path / "home", web, data_folders=str(tmp_path / "data"))
    fetched = host.fetch(f"here:{tmp_path}/data/pets")
    assert fetched.dataset.name == "pets.zip"
    table = read_table(host.blobs.get_file(fetched.dataset.sha256), name=fetched.dataset.name)
    assert table.columns == {"image": ["cat/1.png", "dog/1.png"], "label": ["cat", "dog"]}
