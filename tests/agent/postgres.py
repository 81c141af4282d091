"""A PostgreSQL of the tests' own: a fresh cluster on loopback, gone with the tests. Skips where none is installed."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = shutil.which("initdb") or (str(found[-1]) if found else None)
    if initdb is None:
        pytest.skip("PostgreSQL is not installed here (apt-get install postgresql)")
    return Path(initdb).parent


@contextmanager
def cluster() -> Iterator[str]:
    """The address of an empty database."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    as_user = {"user": user.pw_uid, "group": user.pw_gid} if os.geteuid() == 0 else {}
    os.chown(folder, user.pw_uid, user.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    data = folder / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "trainyard", "--auth=trust", "--no-sync", "-E", "UTF8"],
        check=True, capture_output=True, cwd=folder, **as_user,
    )  # fmt: skip
    quick = "-c fsync=off -c full_page_writes=off -c synchronous_commit=off"  # it is thrown away
    options = f"-h 127.0.0.1 -p {port} -k {folder} {quick}"
    control = [programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options]
    subprocess.run([*control, "start"], check=True, capture_output=True, cwd=folder, **as_user)
    try:
        yield f"postgresql+psycopg://trainyard@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, capture_output=True, cwd=folder, **as_user)
        shutil.rmtree(folder)
