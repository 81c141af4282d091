"""Lays out what an attempt's steps find: the program as it was approved, its configuration, the workspace.

Owns what was read of the bundle. Knows no order of steps. Called by `worker.supervisor.attempt`.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from agent.domain.orders import LaunchOrder
from agent.domain.runs import JobKind, Script
from worker.client.blobs import BlobStore
from worker.folders import RunFolder, remove, write_atomically
from worker.supervisor import outputs, workspace

MODEL_TAR = "model.tar"


class Layout:
    """One attempt's folder, and the workspace of its steps that see the sealed labels.

    Each method may be called again where it raised: AppError (`TransientError`: it may go well later), BadOutput,
    OSError.
    """

    def __init__(self, folder: RunFolder, order: LaunchOrder, blobs: BlobStore) -> None:
        """Changes nothing. `prepared`: an earlier attempt split the same data; known once the folder is laid out."""
        self._folder, self._order, self._blobs = folder, order, blobs
        self._bundle: dict[str, bytes] = {}
        self.prepared = False

    def lay_out(self) -> str:
        """The bundle and the configuration into the run's folder; what people should read about it, mostly nothing.

        The data stays where an earlier attempt prepared it.
        """
        path, spec = self._folder.path, self._order.spec
        self._bundle = outputs.read_bundle(self._blobs.get_file(spec.bundle_sha256), own=spec.script is not None)
        outputs.clear(path)
        kept = outputs.archive_script(path, self._bundle, spec.entry)
        self.prepared = outputs.is_prepared(path, self._folder.sealed, spec)
        if spec.script is not None:
            outputs.lay_program(self._bundle, path)
            self._lay_data(spec.script)
        else:
            outputs.lay_bundle(self._bundle, path)
            if not self.prepared:
                remove(path / "data")
            self._folder.sealed.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path / "config.json", self._config(), durable=False)
            self._lay_model()
        return f"{spec.entry} is another than before; the old one is kept as {kept}" if kept else ""

    def bring_source(self) -> None:
        """The bundle as it was approved, and the file that is to be split, into the workspace."""
        workspace.furnish(self._folder, self._bundle, self._config())
        if self._order.spec.dataset is not None:
            workspace.bring_source(self._folder, self._blobs.get_file(self._order.spec.dataset.sha256))

    def bring_predictions(self) -> None:
        """The bundle as it was approved, and what the training left for the evaluation, into the workspace."""
        workspace.furnish(self._folder, self._bundle, self._config())
        workspace.bring_predictions(self._folder)

    def left_beside(self) -> Sequence[Path]:
        """What a program of somebody's own wrote beside itself; none of a recipe, which knows where its result goes."""
        own = self._order.spec.script is not None and self._order.spec.job is not JobKind.SERVING
        return outputs.left_beside(self._folder.path, self._bundle) if own else ()

    def _lay_data(self, script: Script) -> None:
        """The files that a program of somebody's own reads, as `data/NAME`."""
        data = self._folder.path / "data"
        if data.is_symlink():
            remove(data)
        data.mkdir(exist_ok=True)
        for file in script.data:
            target = data / Path(file.name).name
            remove(target)
            shutil.copyfile(self._blobs.get_file(file.sha256), target)

    def _lay_model(self) -> None:
        """The model of an evaluation or a prediction, and the file that is predicted."""
        spec, path = self._order.spec, self._folder.path
        if spec.model is None:
            return
        remove(path / MODEL_TAR)
        shutil.copyfile(self._blobs.get_file(spec.model.sha256), path / MODEL_TAR)
        if spec.job is JobKind.PREDICTION and spec.dataset is not None:
            (path / "data").mkdir()
            shutil.copyfile(self._blobs.get_file(spec.dataset.sha256), path / "data" / "source.csv")

    def _config(self) -> bytes:
        """What the steps read as config.json."""
        spec = self._order.spec.model_dump_json()
        return f'{{"run":"{self._order.run}","spec":{spec},"data":"data/source.csv"}}'.encode()
