"""What an hour on the team's own hosts costs, as the settings say; nobody is charged, but budgets count it. Pure."""

import re
from decimal import Decimal

from pydantic import Field

from agent.domain.value import Value

_ENTRY = re.compile(r"(?:([\w.-]+):)?(gpu|cpu)=(\d{1,6}(?:\.\d{1,6})?)", re.ASCII)


class Prices(Value):
    """US dollars an hour: of one GPU, and of a run without a GPU; by host, the empty name for every other."""

    gpu: dict[str, Decimal] = Field(default_factory=dict)
    cpu: dict[str, Decimal] = Field(default_factory=dict)

    def hourly(self, *, gpus: int, host: str) -> Decimal | None:
        """What an hour of a run costs on this host; None where nobody said."""
        prices = self.gpu if gpus else self.cpu
        price = prices.get(host, prices.get(""))
        return None if price is None else price * max(1, gpus)


def prices_of(text: str) -> Prices:
    """Read a list such as `gpu=2.50, cpu=0.05, gpu-1:gpu=4`.

    Raises:
        ValueError: an entry cannot be read.
    """
    found: dict[str, dict[str, Decimal]] = {"gpu": {}, "cpu": {}}
    for entry in (part.strip() for part in text.split(",") if part.strip()):
        read = _ENTRY.fullmatch(entry)
        if read is None:
            raise ValueError(
                f"`{entry[:60]}` is no price. Write US dollars an hour as gpu=2.50 (each GPU), cpu=0.05 (a run without "
                "one), or gpu-1:gpu=4 for one host, with commas between them."
            )
        found[read[2]][read[1] or ""] = Decimal(read[3])
    return Prices.model_validate(found)
