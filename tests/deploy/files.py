"""The deployment's files, read as the tools read them as far as the tests need it."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
IMAGES = {"trainyard-bot": DEPLOY / "bot.Dockerfile", "trainyard-worker": DEPLOY / "worker.Dockerfile"}
COMPOSE_FILES = (ROOT / "docker-compose.yml", *sorted(DEPLOY.glob("*.yml")))


def read_yaml(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


@cache
def services() -> dict[str, dict[str, Any]]:
    """The services of docker-compose.yml, with what they extend."""
    found: dict[str, dict[str, Any]] = read_yaml(ROOT / "docker-compose.yml")["services"]
    return {name: _extended(service) for name, service in found.items()}


def _extended(service: dict[str, Any]) -> dict[str, Any]:
    """Mappings are merged, volumes by the path inside of the container, as the Compose specification says."""
    if "extends" not in service:
        return service
    base = read_yaml(ROOT / service["extends"]["file"])["services"][service["extends"]["service"]]
    volumes = {mount.split(":")[1]: mount for mount in (*base["volumes"], *service["volumes"])}
    merged = {"environment": base["environment"] | service["environment"], "volumes": list(volumes.values())}
    return base | service | merged


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """`(INSTRUCTION, the rest)`, comments and line breaks removed."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines()) if word]


def copied(dockerfile: Path) -> set[str]:
    """What the image takes from the repository."""
    return {source for word, rest in instructions(dockerfile) if word == "COPY" for source in shlex.split(rest)[:-1]}


def extras(dockerfile: Path) -> set[str]:
    """The extras of the project that the image installs."""
    found = re.findall(r"pip install [^&]*'\.\[([^\]]+)\]'", dockerfile.read_text())
    return {name for group in found for name in group.split(",")}


def interpolated(path: Path) -> set[str]:
    """The names that Compose fills in from `.env`."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    return set(re.findall(r"\$\{([A-Z_]+)", "\n".join(lines)))
