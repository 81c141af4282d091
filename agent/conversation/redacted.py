"""Takes secrets out of what people send before it is stored, and has the warning about them."""

from agent.domain.inbound import Clicked, Commanded, Inbound, Said
from agent.domain.redaction import without_secrets

REMEDY = (
    "A run gets one from its GPU host: put it into the file `secrets/HF_TOKEN` of the host's home (mode 0600), and "
    "ask for it by that name."
)
PASTED = (
    "Your message held what looks like a secret ({kinds}). I took it out before I stored the message: neither a model "
    "nor a log has seen it, but whoever reads this channel has. Please delete the message and revoke the secret. "
    f"{REMEDY} A key of a language model belongs in the bot's `.env`."
)


def redacted(inbound: Inbound) -> Inbound:
    """The same without secrets; `secrets` says which kinds its words and the names of its files held."""
    kinds: list[str] = []

    def clean(text: str) -> str:
        text, found = without_secrets(text)
        kinds.extend(found)
        return text

    act = inbound.act
    if isinstance(act, Said):
        files = tuple(
            file.model_copy(update={"name": clean(file.name), "locator": _clean(file.locator)})
            for file in act.attachments
        )
        act = act.model_copy(update={"text": clean(act.text), "attachments": files})
    elif isinstance(act, Commanded):
        line = " ".join(act.words)
        cleaned = clean(line)
        act = act if cleaned == line else act.model_copy(update={"words": tuple(cleaned.split())})
    elif isinstance(act, Clicked):
        update = {"action": _clean(act.action), "subject": _clean(act.subject), "text": clean(act.text)}
        act = act.model_copy(update=update)
    person = inbound.person.model_copy(update={"name": _clean(inbound.person.name)})
    return inbound.model_copy(update={"act": act, "person": person, "secrets": tuple(dict.fromkeys(kinds))})


def _clean(text: str) -> str:
    return without_secrets(text)[0]
