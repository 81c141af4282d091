"""The tool that reads the audit log: who asked, decided and did what in this channel, and whether the log is whole."""

import csv
import io
from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from agent.cards import counted
from agent.domain.audit import AuditEntry, Verified, hash_of
from agent.domain.content import Card, Document, Table
from agent.domain.policy import Effect, Role
from agent.domain.redaction import without_secrets
from agent.ports import Clock
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.stores import AuditLog
from agent.tools.tool import Arguments, Caller, Result, Tool

SHOWN = 12
MOST_EXPORTED = 100_000
SHORT_HASH = 16
SUBJECT_CHARS, UNSURE = 200, " (a restart cut it off; it may be done)"
COLUMNS = ("number", "at", "who", "act", "subject", "channel", "digest", "previous", "hash")


class Acts:
    """Writes to the audit log what was done without an approval. Called by the dispatcher."""

    def __init__(self, log: AuditLog, clock: Clock) -> None:
        """`log` is the audit log."""
        self._log = log
        self._clock = clock

    async def done(
        self, caller: Caller, tool: str, arguments: Mapping[str, JsonValue], *, unsure: bool = False
    ) -> None:
        """`arguments` are exact; what looks like a secret in them is not written. `unsure`: a restart cut it off."""
        said = [str(value) if name == "run" else f"{name}={value}" for name, value in arguments.items()]
        subject = without_secrets(" ".join((tool, *said)))[0][:SUBJECT_CHARS] + (UNSURE if unsure else "")
        digest = hash_of({"tool": tool, "arguments": arguments})
        await self._log.did(caller.person, caller.thread, subject, digest=digest, at=self._clock.now())


class AuditArguments(Arguments):
    verify_chain: bool = Field(False, description="Check the whole log.")
    csv: bool = Field(False, description="Every entry of this channel as a file.")


class Auditing:
    """The tools of this family."""

    def __init__(self, log: AuditLog, artifacts: ArtifactWriter) -> None:
        """`artifacts` takes the file."""
        self._log = log
        self._artifacts = artifacts

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "show_audit",
                "Who asked, decided and did what here.",
                AuditArguments,
                Effect.READ,
                run=self.show,
                roles=frozenset({Role.MEMBER}),
                limit_s=120.0,
                offered=False,
            ),
        )

    async def show(self, caller: Caller, asked: AuditArguments) -> Result:
        """The newest entries as a card; the check and the file where they are asked for."""
        channel = caller.thread.channel_key
        found = await self._log.newest(channel, most=MOST_EXPORTED if asked.csv else SHOWN)
        verdict = _verdict(await self._log.verified()) if asked.verify_chain else ""
        files = (await self._file(found, caller),) if asked.csv and found else ()
        body = verdict or ("" if found else "Nothing was asked, decided or changed in this channel yet.")
        footer = f"newest here: {found[0].number} · hash {found[0].hash[:SHORT_HASH]}" if found else ""
        card = Card(kind="notice", title="Audit log of this channel", body=body, table=_table(found), footer=footer)
        return Result(body or f"{counted(len(found), 'row')}.", card=card, files=files)

    async def _file(self, entries: Sequence[AuditEntry], caller: Caller) -> Document:
        """As csv, the oldest first; names that people chose are left out."""
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(COLUMNS)
        for entry in reversed(entries):
            values = entry.model_dump() | {"at": entry.at.isoformat()}
            rows.writerow([values[column] for column in COLUMNS])
        about = f"audit/{caller.thread.platform}-{caller.thread.channel}"
        return await self._artifacts.document(text.getvalue(), name="audit.csv", about=about)


def _verdict(found: Verified) -> str:
    if found.broken is not None:
        return (
            f"**The log was changed: row {found.broken} is the first that does not fit.** Those before it are "
            "whole. Compare with a backup of the database."
        )
    if not found.entries:
        return "The log has no rows yet."
    return (
        f"The log is whole: {counted(found.entries, 'row')}, the newest with hash "
        f"`{found.newest[:SHORT_HASH]}`. Note it down: rows that are cut off at the end only a known hash can show."
    )


def _table(entries: Sequence[AuditEntry]) -> Table | None:
    if not entries:
        return None
    rows = tuple(
        (str(entry.number), f"{entry.at:%m-%d %H:%M}", entry.name or "nobody", f"{entry.act} {entry.subject}")
        for entry in entries[:SHOWN]
    )
    return Table(columns=("no.", "UTC", "who", "what"), rows=rows)
