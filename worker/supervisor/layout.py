"""Lays out what an attempt's steps find: the program as it was approved, and its configuration.

Owns when that happens: in a thread of its own, while the processes of the first steps come up. Knows no order of steps.
Called by `worker.supervisor.attempt`.
Where the store of files is away, `finish` raises, and tries again when it is called again. The room is furnished after
that, with what it has read.
"""

from concurrent.futures import Future, ThreadPoolExecutor

from agent.domain.orders import LaunchOrder
from worker.client.blobs import BlobStore
from worker.folders import RunFolder, remove, write_atomically
from worker.supervisor import outputs, room


class Layout:
    """One attempt's folder, and the room of its steps that see the sealed labels."""

    def __init__(self, folder: RunFolder, order: LaunchOrder, blobs: BlobStore) -> None:
        """Changes nothing before `begin`."""
        self._folder, self._order, self._blobs = folder, order, blobs
        self._bundle: dict[str, bytes] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="layout")
        self._prepared: Future[bool] | None = None
        self._first: Future[None] | None = None
        self._note = ""

    def begin(self) -> None:
        """Lay the run's folder out in the background. No step may begin before `finish`."""
        folder = self._folder
        self._prepared = self._pool.submit(outputs.is_prepared, folder.path, folder.sealed, self._order.spec)
        self._first = self._pool.submit(self._lay_out)

    @property
    def prepared(self) -> bool:
        """Whether an earlier attempt split the same data. Raises: OSError."""
        return self._prepared is not None and self._prepared.result()

    def finish(self) -> None:
        """Return once the run's folder is laid out.

        Raises: AppError (`TransientError`: it may go well later), BadOutput, OSError.
        """
        first, self._first = self._first, None
        if first is None:
            self._lay_out()
        else:
            first.result()

    def take_note(self) -> str:
        """What people should read about it, once; empty for nothing. Not before `finish` or `close`."""
        note, self._note = self._note, ""
        return note

    def furnish_room(self) -> None:
        """The bundle as it was approved, into the room. Raises: OSError."""
        room.furnish(self._folder, self._bundle, self._config())

    def bring_source(self) -> None:
        """The file that is to be split, into the room. Raises like `finish`."""
        room.bring_source(self._folder, self._blobs.get_file(self._order.spec.dataset.sha256))

    def close(self) -> None:
        """Wait until nothing is written any more."""
        self._pool.shutdown(wait=True)

    def _lay_out(self) -> None:
        """The bundle and the configuration; the data too stays where an earlier attempt prepared it."""
        path = self._folder.path
        self._bundle = outputs.read_bundle(self._blobs.get_file(self._order.spec.bundle_sha256))
        outputs.clear(path)
        if kept := outputs.archive_script(path, self._bundle):
            self._note = f"train.py is another than before; the old one is kept as {kept}"
        outputs.lay_bundle(self._bundle, path)
        if not self.prepared:
            remove(path / "data")
        self._folder.sealed.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path / "config.json", self._config(), durable=False)

    def _config(self) -> bytes:
        """What the steps read as config.json."""
        spec = self._order.spec.model_dump_json()
        return f'{{"run":"{self._order.run}","spec":{spec},"data":"data/source.csv"}}'.encode()
