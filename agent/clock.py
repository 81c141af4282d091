"""The machine's own time, as the one `Clock` that is not a test's."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Wall time in UTC and a monotonic count of seconds."""

    def now(self) -> datetime:
        """The aware UTC time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never run back."""
        return time.monotonic()
