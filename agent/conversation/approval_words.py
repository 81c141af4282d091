"""Who decided a question, and why it cannot be decided once more, in words. Pure."""

from datetime import datetime

from agent.domain.approvals import Approval, ApprovalState


def decider(approval: Approval) -> str:
    """The name of who decided; empty where nobody did."""
    return approval.decided_name or (approval.decided_by or "").rpartition("/")[2]


def why_not(approval: Approval, now: datetime) -> str:
    """Why a decision about this question is refused."""
    who = decider(approval)
    match approval.state:
        case ApprovalState.PENDING if approval.expires_at <= now:
            return "This question has expired; nothing was done. Ask again to get a new card."
        case ApprovalState.PENDING:
            return "This card shows an older version of the question; nothing was done. Use the newest card."
        case _ if not who:
            return "This question had expired; nothing was done. Ask again to get a new card."
        case ApprovalState.APPROVED:
            return f"This was approved by {who} and is carried out as soon as it can be; nobody has to ask again."
        case ApprovalState.REJECTED:
            return f"This was rejected by {who} before; nothing was done."
        case _:
            return f"This was decided by {who} before; nothing was done twice."
