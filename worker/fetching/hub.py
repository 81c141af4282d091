"""Downloads a data set of the Hugging Face Hub at an exact revision, for `worker.fetching.rows` to make one file of.

Owns size and revision. A token is the host's own (HF_TOKEN, or what `hf auth login` left). Used by
`worker.fetching.fetcher`.
"""

import fnmatch
from pathlib import Path
from typing import Any

import httpx
from huggingface_hub import DatasetInfo, HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from agent.domain.errors import BadData, NotFound, Unavailable
from agent.domain.sources import HubSource

_ABOUT = ("README.md", "*.json")  # which files are which part, and what columns are
_NO_DATA = ("*.py", "*.pdf", "*.pt", "*.bin", "*.pkl", "*.pickle")


def download(source: HubSource, into: Path, *, limit_bytes: int, endpoint: str = "") -> str:
    """Put the files of a data set into a folder; the commit that they are of. `endpoint` is another Hub's address.

    Raises `BadData`, `NotFound`, `Unavailable`.
    """
    api = HfApi(endpoint=endpoint or None, library_name="trainyard")
    try:
        info = api.dataset_info(source.name, revision=source.revision or None, files_metadata=True)
        wanted = _patterns(info, source.config)
        size = _size(info, wanted)
        if size > limit_bytes:
            raise BadData(
                f"`{source.name}` has {size / 1e6:,.0f} MB; up to {limit_bytes / 1e6:,.0f} MB are fetched. Give the "
                f"address of one of its files, as {api.endpoint}/datasets/{source.name}/resolve/main/…"
            )
        api.snapshot_download(
            source.name,
            repo_type="dataset",
            revision=info.sha,
            local_dir=into,
            allow_patterns=wanted,
            ignore_patterns=list(_NO_DATA),
        )
    except GatedRepoError as error:
        raise BadData(
            f"`{source.name}` is gated: accept its terms on {api.endpoint}/datasets/{source.name}, and give the host a "
            "token of that account (HF_TOKEN)."
        ) from error
    except RevisionNotFoundError as error:
        raise NotFound(f"`{source.name}` has no revision `{source.revision}`.") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise NotFound(
            f"There is no data set `{source.name}` on {api.endpoint} that this host may read. A private one needs "
            "HF_TOKEN on the host."
        ) from error
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        raise Unavailable(f"`{source.name}` could not be fetched from {api.endpoint}: {error}.") from error
    return str(info.sha)


def _patterns(info: DatasetInfo, config: str) -> list[str] | None:
    """The files of a configuration, as the card or their folder says; None: all files. Raises `BadData`."""
    listed = info.card_data.get("configs") if info.card_data else None
    configs = {str(one["config_name"]): one for one in listed or ()}
    if len(configs) > 1 and not config and "default" not in configs:
        raise BadData(f"`{info.id}` has {len(configs)} configurations. Say which: {', '.join(list(configs)[:30])}.")
    chosen = configs.get(config or "default") or (next(iter(configs.values())) if len(configs) == 1 else {})
    paths = _paths(chosen.get("data_files", []))
    folder = chosen.get("data_dir") or config
    if paths:
        return [*paths, *_ABOUT]
    if folder and any(file.rfilename.startswith(f"{folder}/") for file in info.siblings or ()):
        return [f"{folder}/*", *_ABOUT]
    return None


def _paths(files: Any) -> list[str]:
    """The patterns in what a card says of its files: one, several, or those of each part."""
    if isinstance(files, str):
        return [files]
    if isinstance(files, dict):
        return _paths(files.get("path", []))
    return [path for one in files for path in _paths(one)]


def _size(info: DatasetInfo, wanted: list[str] | None) -> int:
    """Bytes of what is downloaded."""

    def counts(name: str) -> bool:
        allowed = wanted is None or any(fnmatch.fnmatch(name, pattern) for pattern in wanted)
        return allowed and not any(fnmatch.fnmatch(name, pattern) for pattern in _NO_DATA)

    return sum(file.size or 0 for file in info.siblings or () if counts(file.rfilename))
