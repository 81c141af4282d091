"""The settings of a GPU host. The only module of the worker that reads or changes the environment.

Built once by `worker.app` and by each supervisor; constructors elsewhere get plain values.
Timings are settings so that tests can scale them; people have no reason to change them.
"""

import os
import re
import socket
from pathlib import Path
from typing import Literal

from platformdirs import user_data_dir
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """`TRAINYARD_<FIELD>` in the environment sets `<field>`."""

    model_config = SettingsConfigDict(env_prefix="TRAINYARD_", frozen=True, extra="ignore", env_ignore_empty=True)

    home: Path = Field(default_factory=lambda: Path(user_data_dir("trainyard")))
    redis_url: str = "redis://127.0.0.1:6379/0"
    host_id: str = Field(default_factory=socket.gethostname, validate_default=True)
    public_key: Path | None = None
    blobs: Literal["folder", "redis"] = "folder"
    sandbox: Literal["auto", "bwrap", "landlock", "none"] = "auto"

    slots: int = Field(default=2, ge=0)  # how many runs without a GPU this host takes at a time

    ready_s: float = 5.0  # a supervisor must hold its lock within this
    heartbeat_s: float = 10.0
    flush_s: float = 0.25  # how often new metrics, log lines and events go out
    checkpoint_grace_s: float = 60.0  # from the first SIGTERM to the second
    second_term_s: float = 10.0  # from the second SIGTERM to SIGKILL
    quiet_s: float = 900.0  # no metric, log line or checkpoint for this long is a hang
    first_step_quiet_s: float = 2700.0  # the same until metrics of two steps tell how long one takes
    quiet_median_steps: float = 10.0  # and for less than this many usual steps nothing is one
    stack_dump_s: float = 30.0  # from SIGUSR1, which asks a hung process where it stands, to the first SIGTERM
    fence_s: float = 600.0  # without one answer of Redis for this long an attempt saves and ends; below the bot's 900 s
    gpu_foreign_bytes: int = 500 * 1024**2  # of others on a GPU: with more no attempt starts there
    parent: int = 0  # the bot's process that started this worker, with which it ends; nobody else sets this
    report: Literal["redis", "spool"] = "redis"  # how events leave; an engine that reads spools itself sets this
    tier: str = ""  # a launcher tells its supervisors which sandbox passed the self-test; nobody else sets this
    warm: str = "auto"  # sets of libraries that stand loaded: `auto` (those that runs need), `off`, names with commas
    warm_keep_s: float = Field(default=3600.0, ge=0)  # with `auto`, how long one stays after its last use
    memory_by: Literal["auto", "poll"] = "auto"  # `auto`: a control group where this user may make one, else `poll`
    memory_limit_bytes: int | None = Field(
        default=None, ge=0
    )  # of an attempt's processes together; 0: no limit of ours,
    # None: what the host has for runs, shared among its slots, or among its GPUs for a run with some
    process_limit: int = Field(default=4096, ge=0)  # of an attempt, with threads; 0: none
    package_index: str = ""  # where requirements of own programs come from; empty: the usual one
    open_files: int = Field(default=65_536, ge=256)  # of each process
    guard_s: float = 1.0  # how often memory is looked at where the kernel does not do it
    disk_every_s: float = 30.0  # how often the disk is looked at
    disk_floor_bytes: int = 5 * 1024**3  # with less free than the smaller of these two the disk counts as low:
    disk_floor_share: float = 0.05  # people are told, and the bot places nothing more there
    disk_hard_bytes: int = 512 * 1024**2  # with less free than this, an attempt saves and ends
    run_limit_bytes: int | None = Field(
        default=None, ge=0
    )  # of one run's folder, the same; 0: none, None: as of memory
    noop_s: float = 30.0  # how often a worker looks if its own pool consumes
    send_limit_s: float = 3600.0  # how long a finished supervisor waits for Redis before it leaves that to the sweep
    sweep_s: float = 60.0
    host_beat_s: float = 10.0
    inspect_limit_s: float = 60.0
    predict_limit_s: float = 120.0
    fetch_limit_s: float = 600.0

    serve_address: str = "127.0.0.1"  # where models that runs keep up listen on this host
    serve_token: str = ""  # who asks a served model has to send; empty: one is made and printed
    data_folders: str = ""  # whose files people may name as data, with `:` between them; none: no file of this host
    fetch_inside: str = ""  # networks that are not public and data may come from, as 10.1.0.0/16, with commas
    hub: str = ""  # another address of the Hugging Face Hub; empty: the usual one
    kaggle: str = "https://www.kaggle.com"
    kaggle_token: str = ""  # an API token of a Kaggle account, for what is not public

    @field_validator("host_id")
    @classmethod
    def _sanitise(cls, text: str) -> str:
        clean = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
        if not clean:
            raise ValueError("TRAINYARD_HOST_ID needs at least one letter or digit")
        return clean

    @property
    def public_key_path(self) -> Path:
        """Where the key lies that launch orders are checked with."""
        return self.public_key or self.home / "keys" / "launch.pub"

    def environment(self) -> dict[str, str]:
        """What a supervisor must find in its environment to build the same settings, and nothing else."""
        fields = self.model_dump(mode="json", exclude_none=True)
        return {f"TRAINYARD_{name.upper()}": str(value) for name, value in fields.items()}


def libraries() -> dict[str, str]:
    """Where libraries lie beside the usual places, as an environment: in some containers the GPU's driver does."""
    path = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": path} if path else {}


def remap_sigterm() -> None:
    """Make SIGTERM end the Celery worker by soft shutdown. Celery reads this once, when it is imported."""
    os.environ["REMAP_SIGTERM"] = "SIGQUIT"
