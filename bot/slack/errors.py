"""One table from Slack's error codes to our errors, with a sentence that says what to do."""

from collections.abc import Mapping

from agent.domain.errors import AppError, BadRequest, NotAllowed, NotFound, RateLimited, TransientError, Unavailable

_INVITE = "I am not in that channel: type /invite @{bot} there, then try again."
_REINSTALL = "Slack refuses my token ({code}): install the app again and put the new token into the settings."

SENTENCES: Mapping[str, tuple[type[AppError], str]] = {
    "not_in_channel": (NotAllowed, _INVITE),
    "channel_not_found": (NotFound, "I cannot see that channel: if it is private, type /invite @{bot} there."),
    "is_archived": (NotAllowed, "That channel is archived, so I cannot write there: unarchive it or use another one."),
    "restricted_action": (NotAllowed, "The workspace does not let me write in that channel: ask an administrator."),
    "restricted_action_read_only_channel": (NotAllowed, "That channel is read-only for me: ask an administrator."),
    "invalid_auth": (AppError, _REINSTALL),
    "not_authed": (AppError, _REINSTALL),
    "token_revoked": (AppError, _REINSTALL),
    "token_expired": (AppError, _REINSTALL),
    "account_inactive": (AppError, _REINSTALL),
    "message_not_found": (NotFound, "That message is gone, so I cannot change it."),
    "cant_update_message": (NotAllowed, "Slack does not let me change that message."),
    "edit_window_closed": (NotAllowed, "Slack does not let me change that message any more."),
    "file_not_found": (NotFound, "That file is gone from Slack: upload it again."),
    "file_deleted": (NotFound, "That file was deleted in Slack: upload it again."),
    "user_not_in_channel": (NotAllowed, "That person is not in the channel, so I cannot show them a private answer."),
    "msg_too_long": (BadRequest, "The message is too long for Slack ({code})."),
    "msg_blocks_too_long": (BadRequest, "The message is too long for Slack ({code})."),
    "invalid_blocks": (BadRequest, "Slack refuses the layout of the message: {detail}"),
    "service_unavailable": (Unavailable, "Slack is not available right now."),
    "internal_error": (TransientError, "Slack had an internal error."),
    "fatal_error": (TransientError, "Slack had an internal error."),
    "request_timeout": (TransientError, "Slack took too long to read our request."),
}


class SlackRefusal(AppError):
    """Slack refused a call with `code`, by which the adapter's modules decide; people read the text."""

    def __init__(self, text: str, *, code: str) -> None:
        super().__init__(text)
        self.code = code


def refusal(method: str, answer: Mapping[str, object], *, bot: str) -> AppError:
    """The error for an answer with `ok: false`. Its `__cause__` is a `SlackRefusal` with the code."""
    code = str(answer.get("error", "unknown_error"))
    bare = SlackRefusal(f"{method}: {code}", code=code)
    if code == "missing_scope":
        text = (
            f"The Slack app lacks the scope {answer.get('needed', 'it needs')} for {method}: add it under"
            " OAuth & Permissions and install the app again."
        )
        error: AppError = NotAllowed(text)
    elif code in SENTENCES:
        kind, sentence = SENTENCES[code]
        error = kind(sentence.format(bot=bot, code=code, detail=_detail(answer)))
    else:
        error = SlackRefusal(f"Slack refused {method}: {code}.", code=code)
    error.__cause__ = bare
    return error


def code_of(error: AppError) -> str:
    """Slack's code behind an error, or empty."""
    for candidate in (error, error.__cause__):
        if isinstance(candidate, SlackRefusal):
            return candidate.code
    return ""


def rate_limited(method: str, retry_after_s: float) -> RateLimited:
    """Slack asked us to wait longer than one call should take."""
    return RateLimited(f"Slack asked me to wait {retry_after_s:.0f} s before {method}.", retry_after_s=retry_after_s)


def _detail(answer: Mapping[str, object]) -> str:
    metadata = answer.get("response_metadata")
    messages = metadata.get("messages") if isinstance(metadata, dict) else None
    return "; ".join(map(str, messages)) if isinstance(messages, list) and messages else "no reason given"
