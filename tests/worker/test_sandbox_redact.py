"""What is taken out of log lines, what is left alone, and the rules for a host's secret files.

The tokens here are made up and put together at run time, so that no scanner takes this file for a leak.
"""

import base64
import json
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from agent.domain.errors import BadRequest, NotFound
from agent.domain.redaction import SHAPES, Redactor
from worker.host.secrets import folder, granted, names

LETTERS = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefghijklmnopqrstuvwxyz"


def made(prefix: str, length: int, *, upper: bool = False) -> str:
    text = prefix + LETTERS[:length]
    return text.upper() if upper else text


TOKENS = [
    ("huggingface", made("hf_", 34)),
    ("huggingface", made("api_org_", 34)),
    ("anthropic", made("sk-ant-" + "api03-", 90)),
    ("openrouter", made("sk-or-" + "v1-", 64)),
    ("openai", made("sk-" + "proj-", 60)),
    ("openai", made("sk-" + "svcacct-", 60)),
    ("openai", made("sk-", 48)),
    ("slack", "xoxb" + "-123456789012-1234567890123-" + LETTERS[:24]),
    ("slack", "xoxe" + ".xoxp-1-" + LETTERS[:40]),
    ("slack", "xapp" + "-1-A0123456789-1234567890123-" + LETTERS[:64]),
    ("slack-webhook", "https://hooks.slack" + ".com/services/T01234567/B01234567/" + LETTERS[:24]),
    ("discord-webhook", "https://discord.com/api/" + "webhooks/123456789012345678/" + LETTERS[:68]),
    ("github", made("gh" + "p_", 36)),
    ("github", made("gh" + "s_", 36)),
    ("github", made("github" + "_pat_", 82)),
    ("gitlab", made("gl" + "pat-", 20)),
    ("aws", "AK" + "IA" + "QWERTYUIOPASDFGH"),
    ("aws", "aws_secret_access_key = " + LETTERS[:40]),
    ("google", "AI" + "za" + LETTERS[:35]),
    ("google", made("GOC" + "SPX-", 28)),
    ("wandb", made("wandb" + "_v1_", 60)),
    ("kaggle", made("KG" + "AT_", 32)),
    ("groq", made("gs" + "k_", 52)),
    ("replicate", made("r8" + "_", 37)),
    ("xai", made("xa" + "i-", 80)),
    ("nvidia", made("nv" + "api-", 64)),
    ("tavily", made("tv" + "ly-dev-", 32)),
    ("digitalocean", "dop" + "_v1_" + "0a1b2c3d" * 8),
    ("sendgrid", "S" + f"G.{LETTERS[:22]}.{LETTERS[:43]}"),
    ("webhook", made("wh" + "sec_", 32)),
    ("linear", made("lin" + "_api_", 40)),
    ("pypi", made("pypi" + "-AgEIcHlwaS5vcmc", 60)),
    ("npm", made("np" + "m_", 36)),
    ("stripe", made("sk" + "_live_", 24)),
    ("jwt", ".".join((made("ey" + "J", 33), made("ey" + "J", 60), LETTERS[:43]))),
    ("discord", "MTA" + LETTERS[:21] + ".G" + LETTERS[:5] + "." + LETTERS[:38]),
    ("password", "redis://default:" + LETTERS[:20] + "@10.0.0.5:6379/0"),
]
INNOCENT = [
    "epoch 3/10 step 1200 train_loss=0.4312 valid_accuracy=0.913 lr=3.0e-05 eta 0:12:33",
    "commit 5b1e0c9a7d3f4e2b8c6a1f0d9e8b7c6a5f4e3d2c of the repository",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "run 8f14e45f-ceea-467f-a8d2-0f1f2e3d4c5b started",
    "loading hf_transformers_model_with_a_rather_long_name_indeed",
    "task-specific-heads-are-initialised-from-scratch-and-need-training",
    "Some weights of DistilBertForSequenceClassification were not initialized: ['classifier.bias']",
    "File /usr/lib/python3.11/site-packages/torch/nn/modules/module.py line 1501 in _wrapped_call_impl",
    "https://huggingface.co/datasets/imdb/resolve/main/plain_text/train-00000-of-00001.parquet",
    "mail user@example.com or see http://example.com/a:b",
    "Module.Submod.VeryLongClassNameThatGoesOnAndOnAndOn",
    "xoxo, the model",
    "-----BEGIN CERTIFICATE-----",
    "NVIDIA A100-SXM4-80GB GPU-5c1f8a2e-7d3b-4c6e-9f0a-1b2c3d4e5f60",
    "AKIA",
    "eyJ is how base64 of a JSON object begins",
    "0.123456.7890123456789012345678901234567890",
]


@pytest.mark.parametrize(("kind", "token"), TOKENS)
def test_a_token_is_taken_out_and_its_kind_named(kind: str, token: str) -> None:
    for before, after in (("", ""), ("token: ", " and more"), ('{"key": "', '"}'), ("KEY=", "\n")):
        line = Redactor(()).line(f"{before}{token}{after}".encode())
        assert f"[secret: {kind}]".encode() in line, line
        assert line.startswith(before.encode())
        assert line.endswith(after.encode())
        assert LETTERS[:16].encode() not in line
        assert LETTERS[:16].upper().encode() not in line


def test_every_shape_has_a_token_in_this_test() -> None:
    unseen = [shape.kind for shape in SHAPES if not any(shape.pattern.search(token.encode()) for _, token in TOKENS)]
    assert unseen == []


@pytest.mark.parametrize("line", INNOCENT)
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    assert Redactor(["correct horse battery"]).line(line.encode() + b"\n") == line.encode() + b"\n"


SECRET = 'p"ss/wörd+with space&'


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        SECRET[::-1],
        json.dumps(SECRET),
        json.dumps({"password": SECRET}, ensure_ascii=False),
        repr(SECRET),
        quote(SECRET),
        quote(SECRET, safe=""),
        SECRET.encode().hex(),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"a{SECRET}".encode()).decode(),
        base64.b64encode(f"ab{SECRET}".encode()).decode(),
        base64.urlsafe_b64encode(f"user:{SECRET}:x".encode()).decode(),
    ],
)
def test_a_granted_value_is_found_in_every_form(shown: str) -> None:
    line = Redactor([SECRET]).line(f"the value is {shown} here".encode())
    assert b"[secret: granted]" in line
    assert line.startswith(b"the value is ")
    assert line.endswith(b" here")
    assert len(line) < len("the value is [secret: granted] here") + 20  # a few characters shared with its neighbours


def test_a_value_of_several_lines_is_found_line_by_line() -> None:
    redactor = Redactor(["first-part-of-it\nsecond-part-of-it"])
    assert redactor.line(b"x second-part-of-it y") == b"x [secret: granted] y"
    assert redactor.line(b"x first-part-of-it y") == b"x [secret: granted] y"


def test_a_line_cut_inside_of_a_value_does_not_show_its_beginning() -> None:
    redactor = Redactor(["correct-horse-battery"])
    assert redactor.line(b"it is correct-horse-ba", cut=True) == b"it is [secret: granted]"
    assert redactor.line(b"it is correct", cut=True) == b"it is correct"


def test_a_private_key_is_one_mark_a_line_until_its_end() -> None:
    redactor = Redactor(())
    body = [
        b"-----BEGIN " + b"RSA PRIVATE KEY-----\n",
        b"Proc-Type: 4,ENCRYPTED\n",
        b"\n",
        *[b"MIIE" + b"x" * 60 + b"\n"] * 3,
    ]
    shown = [redactor.line(line) for line in (b"key:\n", *body, b"-----END " + b"RSA PRIVATE KEY-----\n", b"step 1\n")]
    assert shown[0] == b"key:\n"
    assert set(shown[1:-1]) == {b"[secret: private-key]\n"}
    assert shown[-1] == b"step 1\n"
    whole = b'k = "-----BEGIN ' + b"PRIVATE KEY-----\\nMIIExxxx\\n-----END " + b'PRIVATE KEY-----"; step 2\n'
    assert redactor.line(whole) == b'k = "[secret: private-key]"; step 2\n'
    assert redactor.line(b"-----BEGIN " + b"PRIVATE KEY-----\n") == b"[secret: private-key]\n"
    assert redactor.line(b"no key after all: step 3\n") == b"no key after all: step 3\n"
    assert redactor.line(b"x 4\n") == b"x 4\n"


def test_a_long_line_costs_little() -> None:
    line = (b"loss 0.123 of batch 77, " * 3000)[: 64 * 1024]
    redactor = Redactor(["correct-horse-battery", made("hf_", 34)])
    times = []
    for _ in range(50):
        began = time.perf_counter()
        assert redactor.line(line) == line
        times.append(time.perf_counter() - began)
    assert min(times) < 0.02  # a hang limit; the figure itself is under a millisecond


def keep(home: Path, name: str, value: bytes, mode: int = 0o600) -> Path:
    folder(home).mkdir(exist_ok=True, mode=0o700)
    path = folder(home) / name
    path.write_bytes(value)
    path.chmod(mode)
    return path


def test_only_the_granted_secrets_are_read(tmp_path: Path) -> None:
    keep(tmp_path, "HF_TOKEN", b"the-hub-token\n")
    keep(tmp_path, "OTHER", b"another-value")
    keep(tmp_path, "notes.txt", b"no secret")
    assert granted(tmp_path, ["HF_TOKEN"]) == {"HF_TOKEN": "the-hub-token"}
    assert granted(tmp_path, []) == {}
    assert names(tmp_path) == ("HF_TOKEN", "OTHER")
    assert names(tmp_path / "nowhere") == ()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    keep(tmp_path, "HF_TOKEN", b"the-hub-token\n", mode)
    with pytest.raises(BadRequest, match="chmod 600"):
        granted(tmp_path, ["HF_TOKEN"])


def test_a_missing_secret_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"HF_TOKEN.*chmod 600"):
        granted(tmp_path, ["HF_TOKEN"])


@pytest.mark.parametrize(
    "name", ["../key", "hf_token", "A/B", "", "1A", "A\n", "LD_PRELOAD", "PATH", "HTTPS_PROXY", "TRAINYARD_X"]
)
def test_a_name_that_is_no_secret_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequest):
        granted(tmp_path, [name])


@pytest.mark.parametrize(
    "value", [b"short", b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff", b"has a \0 in it", b" " * 20, b"x" * 70000]
)
def test_a_value_that_cannot_be_kept_out_of_logs_is_refused(tmp_path: Path, value: bytes) -> None:
    keep(tmp_path, "HF_TOKEN", value)
    with pytest.raises(BadRequest):
        granted(tmp_path, ["HF_TOKEN"])


def test_a_link_or_a_pipe_is_no_secret(tmp_path: Path) -> None:
    import os

    keep(tmp_path, "REAL", b"the-hub-token")
    (folder(tmp_path) / "LINK").symlink_to(folder(tmp_path) / "REAL")
    os.mkfifo(folder(tmp_path) / "PIPE", 0o600)
    for name in ("LINK", "PIPE"):
        with pytest.raises(BadRequest, match="plain file"):
            granted(tmp_path, [name])
