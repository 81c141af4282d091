"""The file that TRAINYARD_MCP names: which servers there are, and which of their tools only read. Names no vendor."""

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from agent.domain.errors import BadData
from bot.settings import Settings, Web, child_environment

FILLED = ("args", "env", "headers", "url")  # the keys in which `${NAME}` stands for a variable
NAMED = re.compile(r"\$\{(\w+)\}")
SHOWN = 3  # mistakes that are told at a time


class ServerConfig(BaseModel):
    """One server: a program on this machine, which starts in the folder of the file, or an address.

    `reads` names the tools that only read, `tools` those that are offered; unsaid: none, and all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    url: Web | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    reads: Literal["*"] | tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    limit_s: float = Field(60.0, gt=0, le=3600, allow_inf_nan=False)
    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = None
    disabled: bool = False
    description: str = ""
    cwd: Path = Path()

    @model_validator(mode="after")
    def _one_way(self) -> "ServerConfig":
        if bool(self.command) == (self.url is not None):
            raise ValueError("It needs either `command`, a program on this machine, or `url`, a server over HTTP")
        return self

    def only_reads(self, tool: str) -> bool:
        """Whether the team says that this tool changes nothing."""
        return "*" in self.reads or tool in self.reads

    def unknown(self, listed: frozenset[str]) -> list[str]:
        """The names in `reads` and `tools` that the server does not have."""
        return sorted({*self.reads, *(self.tools or ())} - listed - {"*"})


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    servers: dict[Annotated[str, StringConstraints(pattern=r"^[\w .-]{1,40}$")], ServerConfig] = Field(
        alias="mcpServers"
    )


def servers_of(settings: Settings) -> dict[str, ServerConfig]:
    """The servers of the file that is set, by name. Raises `BadData` where they cannot be used."""
    if settings.mcp is None:
        return {}
    if importlib.util.find_spec("mcp") is None:
        raise BadData("TRAINYARD_MCP needs a package that is not installed: pip install 'trainyard[llm]'.")
    return read_servers(settings.mcp, child_environment())


def read_servers(path: Path, environment: Mapping[str, str]) -> dict[str, ServerConfig]:
    """The servers of a file by name, but for those that are disabled; `environment` has the variables.

    Raises:
        BadData: the file cannot be used; the text says where, and what mends it, and no value of it.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadData(f"TRAINYARD_MCP: {path} cannot be read ({error.strerror}). Correct the path.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadData(f"TRAINYARD_MCP: {path} is no JSON ({error.msg}, {place}). Correct it there.") from None
    except UnicodeDecodeError:
        raise BadData(f"TRAINYARD_MCP: {path} is no text in UTF-8. Save it as one.") from None
    servers = content.get("mcpServers") if isinstance(content, dict) else None
    for name, server in servers.items() if isinstance(servers, dict) else ():
        if isinstance(server, dict) and server.get("disabled") is not True:
            server |= {key: _filled(server[key], environment, f"{name}.{key}") for key in FILLED if key in server}
            server["cwd"] = path.parent / str(server.get("cwd", ""))
    try:
        found = _File.model_validate(content).servers
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False)[:SHOWN]
        said = "; ".join(f"{_place(item['loc'])}: {item['msg'].removeprefix('Value error, ')}" for item in wrong)
        raise BadData(f"TRAINYARD_MCP: {path}: {said.rstrip('.')}. Correct it there.") from None
    return {name: server for name, server in found.items() if not server.disabled}


def _place(loc: tuple[int | str, ...]) -> str:
    """Where it is, without what pydantic adds to name the kinds of a value."""
    return ".".join(str(part) for part in loc if not str(part).startswith(("literal[", "tuple["))) or "the file"


def _filled(value: Any, environment: Mapping[str, str], where: str) -> Any:
    """The value with variables in place of `${NAME}`. Raises `BadData` where one is not set."""
    if isinstance(value, dict):
        return {key: _filled(part, environment, f"{where}.{key}") for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, environment, where) for part in value]
    if not isinstance(value, str):
        return value
    for name in NAMED.findall(value):
        if name not in environment:
            raise BadData(
                f"TRAINYARD_MCP: {where} needs the variable {name}, which is not set. Put {name}=… into `.env` or the "
                "environment."
            )
    return NAMED.sub(lambda found: environment[found[1]], value)
