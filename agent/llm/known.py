"""What LiteLLM knows of models: price, window, levels of effort, keys. Part of the gateway; asks nobody."""

import contextlib
from typing import Any

PER_TOKENS = 1_000_000


class Known:
    """Looks models up in LiteLLM's table."""

    def __init__(self, litellm: Any) -> None:
        """`litellm` is the module, or None where it is not installed."""
        self._litellm = litellm
        self._seen: dict[str, dict[str, Any]] = {}

    def entry(self, model: str) -> dict[str, Any]:
        """The table's entry, kept from the first look: the Router enters models without a price with one of nothing."""
        if model not in self._seen:
            self._seen[model] = self._entry(model)
        return self._seen[model]

    def _entry(self, model: str) -> dict[str, Any]:
        if model.startswith("ollama"):  # of one's own machine, where LiteLLM would ask for it
            return {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
        with contextlib.suppress(Exception):  # it raises where it knows nothing
            return dict(self._litellm.get_model_info(model))
        return {}

    def price(self, model: str) -> tuple[float, float] | None:
        """US dollars for a token in and for one out; None where nobody knows them."""
        usd_in, usd_out = self._prices(model)
        return None if usd_in is None or usd_out is None else (usd_in, usd_out)

    def is_free(self, model: str) -> bool:
        """Whether its price is nothing, so that nobody has to be asked what an answer cost."""
        return self.price(model) == (0.0, 0.0)

    def window(self, model: str) -> int:
        """The most tokens that it reads; 0 where that is not known."""
        return int(self.entry(model).get("max_input_tokens") or 0)

    def has_efforts(self, model: str) -> bool:
        """Whether it has levels of effort."""
        return bool(self.entry(model).get("supports_reasoning"))

    def sends_thoughts(self, model: str) -> bool:
        """Whether it takes its own calls back, where it thinks, only behind the thoughts before them: Claude to 4.5."""
        return "claude" in model and not self.entry(model).get("supports_adaptive_thinking")

    def marks_cache(self, model: str) -> bool:
        """Whether its provider caches what is marked, and bills that; others cache by themselves or not at all."""
        return bool(self.entry(model).get("cache_creation_input_token_cost"))

    def missing_keys(self, model: str) -> str:
        """Environment variables with keys that it needs and that are not set."""
        try:
            missing = self._litellm.validate_environment(model)["missing_keys"]
        except Exception:  # noqa: BLE001 - only for better words
            return ""
        return " or ".join(name for name in missing if name.endswith(("_API_KEY", "_TOKEN")))

    def facts(self, model: str) -> dict[str, Any]:
        """Window, prices per million tokens, and whether it has levels of effort."""
        usd_in, usd_out = (None if price is None else price * PER_TOKENS for price in self._prices(model))
        window = self.window(model) or None
        return {"window_tokens": window, "usd_in": usd_in, "usd_out": usd_out, "efforts": self.has_efforts(model)}

    def _prices(self, model: str) -> tuple[float | None, float | None]:
        entry = self.entry(model)
        return entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
