"""A secret that somebody pastes in chat goes nowhere: not to a model, into the database, a log or a message."""

import base64

import pytest

from agent.domain.redaction import without_secrets
from agent.ports import ModelReply
from tests.chat.conftest import Chat
from tests.fakes import ScriptedModel

HEX = "3fa9c1d27be04f5a9d10c2e8b7a6f5041122aabb"
MIXED = "qR7tY2uI9oP4aS6dF1gH"
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
HEX_32 = "0123456789abcdef0123456789abcdef"


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PASTED = {
    "use hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345 please": "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "key sk-proj-AbCdEfGhIjKlMnOpQrSt1234": "sk-proj-AbCdEfGhIjKlMnOpQrSt1234",
    "xoxb-123456789012-abcdefABCDEF": "xoxb-123456789012-abcdefABCDEF",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAIOSFODNN7EXAMPLE": "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234\n-----END RSA PRIVATE KEY-----": "MIIEowIBAAKCAQEA1234",
    f"the wandb token is {HEX}": HEX,
    f'api_key: "{MIXED}"': MIXED,
    f"password={MIXED}": MIXED,
    f"The token is {HEX}.": HEX,
    f"my secret {MIXED}": MIXED,
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI0K7MDENG/bPxRfiCYEXAMPLEKEY": "wJalrXUtnFEMI0K7MDENG/bPxRfiCYEXAMPLEKEY",
    f"use {in_base64(TOKEN)} please": in_base64(TOKEN)[:20],
    f"path/{in_base64(f'token {TOKEN}')}": in_base64(f"token {TOKEN}")[:20],
    in_base64("-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234"): in_base64("-----BEGIN PRIV")[:20],
    f"it is {TOKEN[:18]}\n{TOKEN[18:]} ok": TOKEN[18:],
    f"it is {TOKEN[:9]}\\\n  {TOKEN[9:22]}\n{TOKEN[22:]}": TOKEN[22:],
    f'{{"username":"bob","key":"{HEX_32}"}}': HEX_32,
    f"export KAGGLE_KEY={HEX_32}": HEX_32,
    f"my kaggle api key is {HEX_32}": HEX_32,
    "password: hunter2hunter2": "hunter2hunter2",
    "DB_PASSWORD=hunter3hunter3": "hunter3hunter3",
    '{"password": "hunter4hunter4"}': "hunter4hunter4",
    "my password is Tr0ub4dor&3.": "Tr0ub4dor&3",
    "pwd=hunter5hunter5": "hunter5hunter5",
    "passphrase=correct-horse-battery-staple": "correct-horse",
    f"xai-{'AbC123' * 8}": "xai-AbC",
    f"nvapi-{'AbC_12-' * 8}": "nvapi-AbC",
    f"tvly-dev-{'AbC123' * 5}": "tvly-dev-AbC",
    f"dop_v1_{'0a1b' * 16}": "dop_v1_0a",
    f"SG.a1B2c3D4e5F6g7H8i9J0k1.{'xY' * 21}z": "SG.a1B2",
    f"whsec_{'AbC123' * 5}": "whsec_AbC",
    f"lin_api_{'AbC123' * 7}": "lin_api_AbC",
    f"Authorization: Basic {in_base64('bob:hunter2')}": in_base64("bob:hunter2"),
    "curl -H 'Authorization: Bearer abcDEF123456'": "abcDEF123456",
    f"Bearer {HEX_32[1:]}": HEX_32[1:],
    "you said [secret: huggingface], it is hf_ZyXwVuTsRqPoNmLkJiHgFeDcBa0123": "hf_ZyXwVuTsRqPoNmLkJiHgFeDcBa0123",
}
HARMLESS = (
    "train a token classification model with dslim/bert-base-NER-uncased2",
    "start file=visits.csv target=visited_doctor learning_rate=0.001",
    f"the file has sha256 {HEX * 2}"[:100],
    "run r-abc123 of commit 0192a31f1c65556c8b68e94b09a6f1c65556c8b6",
    "token: distilbert-base-uncased-finetuned-conll03-english",
    "max_tokens=4096 and the tokenizer meta-llama/Llama-3.2-1B-Instruct",
    "model meta-llama/Llama-3.2-1B-Instruct, token meta-llama/Llama-3.2-1B-Instruct",
    "https://huggingface.co/datasets/stanfordnlp/imdb?token=yes",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "password protected spreadsheets are fine",
    f"sha256:{HEX * 2}"[:71],
    f"digest {HEX_32}, key={HEX_32}",
    "the key is customer_id, and key: order_id_2 in the other file",
    "{'username': 'bob', 'key': 'customer_id'}",
    "columns key, password_length, token_count; predict password_strength from password",
    "password_length=12 seed=7 learning_rate=0.0003",
    "password: required, passphrase: required, pwd=/home/user1/data, what is pwd?",
    "password: password_hash_2",
    "password = getpass.getpass(), password=os.environ['DB_PASSWORD2'], password: ${PASS1}",
    "Authorization: Bearer $HF_TOKEN or Authorization: Bearer <token>; bearer tokens are fine",
    "google/vit-base-patch16-224-in21k and MyVeryLongClassNameForTransformers2024/Other",
    "use sk-learn\nversion 1.2.3, or hf_model\nfrom the hub2",
    in_base64("an ordinary text of some length, in base64"),
)


@pytest.mark.parametrize("text", PASTED)
def test_secrets_are_known(text: str) -> None:
    clean, kinds = without_secrets(text)
    assert PASTED[text] not in clean
    assert len(kinds) == 1


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_none_stays(text: str) -> None:
    assert without_secrets(text) == (text, ())


async def test_a_secret_that_was_pasted_goes_nowhere(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    model = chat.model = ScriptedModel(*(ModelReply("I see.", (), "m") for _ in range(2)))
    alice = chat.slack.user("alice")
    async with chat.open() as brain:
        asked = alice.mention("\n".join(PASTED), files=[chat.slack.file("data.csv", b"a,b\n1,2\n")])
        await chat.seen(asked.ts, "I see.")
        alice.slash(f"status password={MIXED}")
        alice.say(f"and one more: secret={MIXED}", thread=asked.ts)
        await chat.seen(asked.ts, "I see.", count=2)
        await chat.still(brain)
        assert len([whisper for whisper in chat.slack.whispers if "revoke the secret" in whisper.shown]) == 3
    ours = [m.shown for m in (*chat.slack.messages(), *chat.slack.whispers) if m.user == chat.slack.bot_user_id]
    kept = b"".join(path.read_bytes() for path in chat.folder.glob("test.db*")).decode(errors="replace")
    for place in (str(ours), kept, repr(model.asked), caplog.text):
        assert [secret for secret in PASTED.values() if secret in place] == []
    assert "[secret: huggingface]" in kept


async def test_a_secret_in_a_name_an_address_or_a_click_goes_nowhere(
    chat: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    token = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
    model = chat.model = ScriptedModel(ModelReply("I see.", (), "m"))
    chat.slack.scopes.discard("users:read")  # so that people are known by the names that deliveries give them
    alice = chat.slack.user(f"alice {token}")
    async with chat.open() as brain:
        asked = alice.mention("look", files=[chat.slack.file(f"{token}.csv", b"a,b\n1,2\n")])
        answer = await chat.seen(asked.ts, "I see.")
        button = {"type": "button", "text": {"type": "plain_text", "text": "Log"}, "action_id": "0.logs"}
        answer.blocks.append({"type": "actions", "elements": [{**button, "value": f"v1:logs:{token}:"}]})
        alice.click(answer, "Log")
        alice.slash("status")
        await chat.slack.wait_for(lambda: len(chat.slack.whispers) == 3)
        await chat.still(brain)
    ours = [m.shown for m in (*chat.slack.messages(), *chat.slack.whispers) if m.user == chat.slack.bot_user_id]
    kept = b"".join(path.read_bytes() for path in chat.folder.glob("test.db*")).decode(errors="replace")
    assert [place for place in (str(ours), kept, repr(model.asked), caplog.text) if token in place] == []
    assert [file.name for file in model.asked[0][-1].files] == ["[secret: huggingface].csv"]
