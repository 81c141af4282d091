"""The planner of rules as the bot holds it: its readers are loaded when it is first asked, or before by `load`.

They compile a thousand patterns, which a start does not wait for.
"""

from collections.abc import AsyncIterator, Sequence

from agent.ports import ActAsked, ModelMessage, Piece, ToolSchema


class Rules:
    """A `Model` without a model, and what reads acts from words (`agent.ports.ReadsActs`)."""

    @staticmethod
    def load() -> None:
        """Load the readers and the classifier; takes a fifth of a second, and may run in a thread."""
        import agent.llm.offline  # noqa: PLC0415, F401

        Rules.acts("hello")

    def stream(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> AsyncIterator[Piece]:
        """One reply, at once."""
        from agent.llm.offline import OfflinePlanner  # noqa: PLC0415

        return OfflinePlanner().stream(messages, tools)

    @staticmethod
    def acts(words: str) -> ActAsked | None:
        """The act that a person's own words ask for; None where they ask for none."""
        from agent.llm.acts import act_asked  # noqa: PLC0415

        return act_asked(words)
