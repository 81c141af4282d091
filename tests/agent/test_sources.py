"""Addresses of data as people write them."""

import pytest

from agent.domain.errors import BadRequest
from agent.domain.sources import HubSource, KaggleSource, PathSource, Source, WebSource, address_in, source_of

READ: list[tuple[str, Source]] = [
    ("https://x.org/a/houses.csv", WebSource(url="https://x.org/a/houses.csv")),
    ("https://x.org/all.zip#b/houses.csv", WebSource(url="https://x.org/all.zip", member="b/houses.csv")),
    (
        "https://github.com/o/r/blob/main/d/a.csv",
        WebSource(url="https://raw.githubusercontent.com/o/r/main/d/a.csv"),
    ),
    ("hf:imdb@main", HubSource(name="imdb", revision="main")),
    ("hf:stanfordnlp/imdb", HubSource(name="stanfordnlp/imdb")),
    (
        "hf:nyu-mll/glue/sst2:validation@bcdcba79",
        HubSource(name="nyu-mll/glue", config="sst2", split="validation", revision="bcdcba79"),
    ),
    ("https://huggingface.co/datasets/stanfordnlp/imdb", HubSource(name="stanfordnlp/imdb")),
    ("https://huggingface.co/datasets/o/n/tree/v1.2", HubSource(name="o/n", revision="v1.2")),
    (
        "https://huggingface.co/datasets/nyu-mll/glue/viewer/sst2/test",
        HubSource(name="nyu-mll/glue", config="sst2", split="test"),
    ),
    (
        "https://huggingface.co/datasets/o/n/blob/main/data/a.parquet",
        WebSource(url="https://huggingface.co/datasets/o/n/resolve/main/data/a.parquet"),
    ),
    ("kaggle:uciml/iris", KaggleSource(name="uciml/iris")),
    ("kaggle:uciml/iris/Iris.csv@2", KaggleSource(name="uciml/iris", member="Iris.csv", version=2)),
    ("https://www.kaggle.com/datasets/uciml/iris?select=Iris.csv", KaggleSource(name="uciml/iris")),
    ("/data/2026/houses.parquet", PathSource(path="/data/2026/houses.parquet")),
    ("gpu-1:/data/houses.csv", PathSource(path="/data/houses.csv", host="gpu-1")),
    ("gpu-1:/data/images/", PathSource(path="/data/images", host="gpu-1")),
]


@pytest.mark.parametrize(("text", "meant"), READ)
def test_an_address_is_read(text: str, meant: Source) -> None:
    assert source_of(text) == meant


@pytest.mark.parametrize("text", ["houses.csv", "hf:", "ftp://x.org/a.csv", "/etc/passwd", "../a.csv", ""])
def test_what_is_none_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(BadRequest, match="is no address of data"):
        source_of(text)


@pytest.mark.parametrize(
    ("sentence", "address"),
    [
        ("train on https://x.org/a/houses.csv, predict price", "https://x.org/a/houses.csv"),
        ("what is in hf:stanfordnlp/imdb:test?", "hf:stanfordnlp/imdb:test"),
        ("(see gpu-1:/data/houses.csv)", "gpu-1:/data/houses.csv"),
        ("train on gpu-1:/data/images, please", "gpu-1:/data/images"),
        ("use /data/a.csv.gz please", "/data/a.csv.gz"),
        ("read https://x.org/issue/5 first", None),
        ("train on houses.csv with lr=0.1", None),
        ("a/b.csv or c", None),
        ("either/or.csv", None),
        ("https://x.org/doc then kaggle:o/n", "kaggle:o/n"),
    ],
)
def test_an_address_is_found_in_a_sentence(sentence: str, address: str | None) -> None:
    assert address_in(sentence) == address


@pytest.mark.parametrize(("text", "meant"), READ)
def test_what_is_shown_is_read_again(text: str, meant: Source) -> None:
    assert source_of(meant.shown) == meant
