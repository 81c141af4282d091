"""The machine's own time, as the one `Clock` that is not a test's; the months of budgets."""

import time
from datetime import UTC, datetime


def month_began(now: datetime) -> datetime:
    """The first moment of the month, in UTC."""
    return now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


class SystemClock:
    """Wall time in UTC and a monotonic count of seconds."""

    def now(self) -> datetime:
        """The aware UTC time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never run back."""
        return time.monotonic()
