"""What the brain remembers, as Protocols by subject. Each method is one transaction; `agent.storage` implements them.

Their names can be had from here, as those of `agent.run_store`.
"""

from dataclasses import dataclass

from agent.run_store import START, Applied, Ending, Lease, LogPage, LogQuery, Note, Place, Runs, Script, Verdict
from agent.stores.conversations import (
    Compaction,
    Context,
    Conversations,
    Forgotten,
    Inbox,
    InboxItem,
    InboxState,
    SessionInfo,
    Sessions,
    Turn,
    TurnKind,
    TurnState,
)
from agent.stores.decisions import Allowances, Approvals, AuditLog, Questions, Refused, ThreadFacts, ThreadNow
from agent.stores.outbox import Outbox, Post, PostState
from agent.stores.spending import Budgets, ModelCall, ModelUsage, Spent

__all__ = [
    "START",
    "Allowances",
    "Applied",
    "Approvals",
    "AuditLog",
    "Budgets",
    "Compaction",
    "Context",
    "Conversations",
    "Ending",
    "Forgotten",
    "Inbox",
    "InboxItem",
    "InboxState",
    "Lease",
    "LogPage",
    "LogQuery",
    "ModelCall",
    "ModelUsage",
    "Note",
    "Outbox",
    "Place",
    "Post",
    "PostState",
    "Questions",
    "Refused",
    "Runs",
    "Script",
    "SessionInfo",
    "Sessions",
    "Spent",
    "Stores",
    "ThreadFacts",
    "ThreadNow",
    "Turn",
    "TurnKind",
    "TurnState",
    "Verdict",
]


@dataclass(frozen=True, slots=True)
class Stores:
    """All that the brain remembers."""

    inbox: Inbox
    conversations: Conversations
    sessions: Sessions
    approvals: Approvals
    allowances: Allowances
    questions: Questions
    runs: Runs
    outbox: Outbox
    usage: ModelUsage
    budgets: Budgets
    facts: ThreadFacts
    audit: AuditLog
