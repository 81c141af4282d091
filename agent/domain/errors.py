"""What can go wrong, sorted by who has to act.

The text of an `AppError` is shown to people as it is, so it says what, where and what to do.
Everything that is not an `AppError` is a bug: caught at the process edges only, shown as an id.
"""

from typing_extensions import override


class AppError(Exception):
    """An error whose text is fit for a chat thread."""

    def __init__(self, text: str) -> None:
        """`text` is one or two full sentences."""
        super().__init__(text)
        self.text = text

    @override
    def __str__(self) -> str:
        return self.text


class UserError(AppError):
    """The person who asked can mend it."""


class BadRequest(UserError):
    """The request cannot be carried out as it was said."""


class BadData(UserError):
    """A file or dataset cannot be used; the text names the file and the place in it."""


class NotFound(UserError):
    """The thing asked for does not exist."""


class NotAllowed(UserError):
    """This person may not do that."""


class Conflict(UserError):
    """The state of the thing does not allow that now."""


class OverBudget(UserError):
    """It may cost more than is left of a budget."""


class TransientError(AppError):
    """It may work later; retried by the layer that owns the connection."""

    def __init__(self, text: str, *, retry_after_s: float | None = None) -> None:
        """`retry_after_s` is the other side's own word, when it gave one."""
        super().__init__(text)
        self.retry_after_s = retry_after_s


class Unavailable(TransientError):
    """Something we depend on does not answer."""


class RateLimited(TransientError):
    """The other side asked us to wait."""


class ModelError(AppError):
    """A language model refused, or answered something that cannot be used."""


class TooLong(ModelError):
    """The conversation does not fit into the window of any model; a shorter one would."""
