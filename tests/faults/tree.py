"""A copy of this repository that can be broken: its files, and a Python that imports them and nothing of the original.

Supervisors are started with `-I`, so PYTHONPATH would not reach them; a virtual environment of the copy's own does.
"""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copied(into: Path) -> Path:
    """Copy every file that git knows or would take; the copy's interpreter."""
    told = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, told.stdout.decode().split("\0")):
        source, target = ROOT / name, into / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    home = into / ".venv"
    venv.create(home, with_pip=False, symlinks=True)
    folders = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    own = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    # The first line wins. Files that end in .pth in the other folders (an editable install) are not read from here.
    (own / "tree.pth").write_text("\n".join([str(into), *folders]) + "\n")
    return home / "bin" / "python"
