"""`python -m worker.fetching.rows FOLDER [--config C] [--split S] [--name N]`: one file out of a data set's folder.

Runs in the sandbox, without network: the files are a stranger's. Prints what it made as JSON. Rows go to Parquet;
rows of which a column is an image go to a zip of images and a csv. Exits as the other scripts do on bad data.
"""

import argparse
import csv
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

BAD_DATA_EXIT = 65  # as `worker.supervisor.exits` has it; this script imports nothing of ours
_TRAINING = ("train", "training")


class BadData(Exception):
    """The folder cannot be used; the message is a sentence for people."""


def main() -> None:
    """Make the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", default="")
    parser.add_argument("--split", default="")
    parser.add_argument("--name", default="data")
    asked = parser.parse_args()
    try:
        print(json.dumps(made(asked.folder, asked.name, config=asked.config, split=asked.split)))
    except BadData as error:
        print(json.dumps({"error": str(error)}))
        sys.exit(BAD_DATA_EXIT)


def made(folder: Path, name: str, *, config: str, split: str) -> dict[str, Any]:
    """Write `rows.parquet` or `images.zip` beside; its path, rows, the part that it is and the others there are."""
    import datasets

    datasets.disable_progress_bars()
    try:
        configs = datasets.get_dataset_config_names(str(folder))
        chosen = config or ("default" if "default" in configs else configs[0])
        if chosen not in configs or (not config and len(configs) > 1 and "default" not in configs):
            raise BadData(f"{name} has {len(configs)} configurations. Say which: {', '.join(configs[:30])}.")
        found = datasets.load_dataset(str(folder), chosen, cache_dir=str(Path.cwd() / "cache"))
    except (datasets.exceptions.DatasetsError, ValueError, OSError, RuntimeError) as error:
        raise BadData(f"{name} cannot be read as a data set: {str(error).splitlines()[0][:300]}") from error
    parts = list(found)
    part = split or next((part for part in (*_TRAINING, *parts) if part in parts), "")
    if part not in parts:
        raise BadData(f"{name} has no part `{split}`. It has {', '.join(parts)}.")
    rows = found[part]
    images = [column for column, kind in rows.features.items() if isinstance(kind, datasets.Image)]
    path = _zipped(rows, images[0], datasets) if images else _parquet(rows, datasets)
    return {"file": path, "rows": len(rows), "split": part, "others": [other for other in parts if other != part]}


def _parquet(rows: Any, datasets: Any) -> str:
    """Class numbers become the names of the classes."""
    for column, kind in list(rows.features.items()):
        if isinstance(kind, datasets.ClassLabel):
            names = kind.names
            words = [names[at] if at is not None and at >= 0 else None for at in rows[column]]
            rows = rows.remove_columns(column).add_column(column, words)
    rows.to_parquet("rows.parquet")
    return "rows.parquet"


def _zipped(rows: Any, image: str, datasets: Any) -> str:
    """The images as they are stored, and a csv that names them beside the other columns."""
    rows = rows.cast_column(image, datasets.Image(decode=False))
    plain = [column for column, kind in rows.features.items() if isinstance(kind, datasets.Value | datasets.ClassLabel)]
    kinds = rows.features
    with zipfile.ZipFile("images.zip", "w") as archive, Path("labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *plain])
        for at, row in enumerate(rows):
            data = row[image]["bytes"] or Path(row[image]["path"]).read_bytes()
            entry = f"{at:06d}{_ending(data)}"
            archive.writestr(entry, data)
            cells = [
                kinds[column].int2str(row[column])
                if isinstance(kinds[column], datasets.ClassLabel) and row[column] is not None
                else row[column]
                for column in plain
            ]
            writer.writerow([entry, *cells])
        file.flush()
        archive.write("labels.csv")
    return "images.zip"


def _ending(data: bytes) -> str:
    return ".jpg" if data.startswith(b"\xff\xd8") else ".webp" if data[8:12] == b"WEBP" else ".png"


if __name__ == "__main__":
    main()
