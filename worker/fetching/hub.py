"""Downloads a data set of the Hugging Face Hub at an exact revision, for `worker.fetching.rows` to make one file of.

Owns size and revision. A token is the host's own (HF_TOKEN, or what `hf auth login` left). Used by
`worker.fetching.fetcher`.
"""

import fnmatch
from pathlib import Path

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

_NO_DATA = ("*.py", "*.pdf", "*.pt", "*.bin", "*.pkl", "*.pickle")  # README.md says which files are which part


def download(source: HubSource, into: Path, *, limit_bytes: int, endpoint: str = "") -> str:
    """Put the files of a data set into a folder; the commit that they are of. `endpoint` is another Hub's address.

    Raises `BadData`, `NotFound`, `Unavailable`.
    """
    api = HfApi(endpoint=endpoint or None, library_name="trainyard")
    try:
        info = api.dataset_info(source.name, revision=source.revision or None, files_metadata=True)
        size = _size(info)
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


def _size(info: DatasetInfo) -> int:
    """Bytes of what is downloaded."""
    files = info.siblings or ()
    return sum(file.size or 0 for file in files if not any(fnmatch.fnmatch(file.rfilename, no) for no in _NO_DATA))
