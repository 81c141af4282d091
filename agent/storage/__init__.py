"""The database: the one truth. Only the bot's process opens it."""

from agent.storage.allowances import SqlAllowances
from agent.storage.approvals import SqlApprovals
from agent.storage.audit import SqlAuditLog
from agent.storage.budgets import SqlBudgets
from agent.storage.conversations import SqlConversations
from agent.storage.database import Database
from agent.storage.facts import SqlThreadFacts
from agent.storage.inbox import SqlInbox
from agent.storage.model_usage import SqlModelUsage
from agent.storage.outbox import SqlOutbox
from agent.storage.questions import SqlQuestions
from agent.storage.runs import SqlRuns
from agent.storage.sessions import SqlSessions
from agent.stores import Stores


def sql_stores(database: Database) -> Stores:
    """Every store over one database."""
    return Stores(
        inbox=SqlInbox(database),
        conversations=SqlConversations(database),
        sessions=SqlSessions(database),
        approvals=SqlApprovals(database),
        allowances=SqlAllowances(database),
        questions=SqlQuestions(database),
        runs=SqlRuns(database),
        outbox=SqlOutbox(database),
        usage=SqlModelUsage(database),
        budgets=SqlBudgets(database),
        facts=SqlThreadFacts(database),
        audit=SqlAuditLog(database),
    )
