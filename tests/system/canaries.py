"""Secrets that are planted where people and hosts have them, and a search for them in everything that leaves.

What may hold one: where it was planted, and files that are kept as they were attached, since they have to run.
"""

import base64
import gzip
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import redis
from PIL import Image

from tests.platforms.model_server import ModelServer
from tests.platforms.slack_server import SlackServer

PROVIDER = "sk-canary-41c7e0b2f5a94d38"
WORKER = "canaryOfTheWorker9Jd82kQpLm37"  # in the worker's environment
GRANTED = "canaryGranted4mNs81LwQz90TrUvXy"  # a file of the host, which the program prints in every way it can
SCRIPT = "sk-proj-CanaryInTheScript7Hq2Lw9Zx"
PASTED = "hf_CanaryPastedIntoAMessage0123456789"
CELL = "ghp_CanaryInACellOfTheData0123456789abcd"
PROGRAM = f'''\
import base64, json, os, sys, time
from trainyard import TrainingRuntime
KEY = "{SCRIPT}"
token = os.environ["HF_TOKEN"]
runtime = TrainingRuntime()
runtime.start(f"net {{token}} {{KEY}}", total_steps=2)
runtime.log_metrics(1, **{{f"loss_{{token}}": 1.0, f"accuracy {{KEY}}": 0.5}})
runtime.log_metrics(2, **{{f"loss_{{token}}": 0.5, f"accuracy {{KEY}}": 0.6}})
print("plain", token, json.dumps({{"token": token}}), token[::-1], token.encode().hex())
print(*(base64.b64encode(b"x" * n + token.encode()).decode() for n in range(3)))
sys.stdout.write("in two parts " + token[:15])
sys.stdout.flush()
time.sleep(0.3)
print(token[15:], "and", KEY)
print("data", open("data/keys.csv").read(60))
raise RuntimeError(f"cannot log in with {{KEY}} or {{token}}")
'''
OWN_FILES = {"meta.json", "metrics.jsonl"}  # of the program, which stay in its folder
DATA = "key,good\n" + f"{CELL},yes\n{CELL},no\n" * 20
PLANTED = {
    "the provider's key": PROVIDER,
    "a secret of the worker": WORKER,
    "a granted secret": GRANTED,
    "a key in a script": SCRIPT,
    "a pasted key": PASTED,
    "a key in the data": CELL,
}


def leaks(slack: SlackServer, provider: ModelServer, home: Path, bot: Path, redis_url: str) -> list[str]:
    """Which secret stands where, in whichever form; `home` is the host's folder, `bot` that of the bot's database."""
    forms = {(name, form) for name, secret in PLANTED.items() for form in _forms(secret)}
    places = (*_posts(slack), *_prompts(provider), *_files(home), *_files(bot), *_rows(bot / "bot.db"))
    return sorted(
        f"{name} stands in {place}: …{data[max(0, data.find(form) - 60) : data.find(form) + 60]!r}"
        for place, data in (*places, *_values(redis_url))
        for name, form in forms
        if form in data
    )


def _forms(secret: str) -> set[bytes]:
    raw = secret.encode()
    whole = {raw[:16], raw[::-1], raw.hex().encode()}  # the beginning of what was cut, too
    for before in range(3):  # what of base64 depends on the value alone
        text = base64.b64encode(b"\0" * before + raw)
        whole.add(text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6])
    return whole


def _posts(slack: SlackServer) -> Iterator[tuple[str, bytes]]:
    for message in (*slack.messages(), *slack.whispers):
        if message.user == slack.bot_user_id:
            edits = [json.dumps([text, blocks], ensure_ascii=False) for text, blocks in message.edits]
            yield f"message {message.ts}", "\n".join((message.text, json.dumps(message.blocks), *edits)).encode()
    for file in slack.files.values():
        if file.data not in {PROGRAM.encode(), DATA.encode()}:  # those that people attached
            yield f"file {file.name}", _readable(file.name, file.data)


def _readable(name: str, data: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.decompress(data)
    if data.startswith(b"\x89PNG"):
        return data + repr(getattr(Image.open(io.BytesIO(data)), "text", "")).encode()
    return data


def _prompts(provider: ModelServer) -> Iterator[tuple[str, bytes]]:
    for number, request in enumerate(provider.requests, 1):
        yield f"prompt {number}", json.dumps(request.body, ensure_ascii=False).encode()


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All but secrets, what holds an attached file as it is, and what the program wrote into its own folder."""
    for path in folder.rglob("*"):
        if path.is_file() and path.parent.name not in {"secrets", "keys"} and path.name not in OWN_FILES:
            data = path.read_bytes()
            if PROGRAM.encode() not in data and DATA.encode() not in data:
                yield str(path), _readable(path.name, data)


def _rows(database: Path) -> Iterator[tuple[str, bytes]]:
    """Each column of each table as one text, so that what is cut over rows shows too."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        tables = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            found = opened.execute(f'SELECT * FROM "{table}"')
            names, rows = [column[0] for column in found.description], found.fetchall()
            for number, name in enumerate(names):
                cells = (row[number] for row in rows)
                data = [cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells]
                yield f"{table}.{name}", b"\n".join(data) + b"\n" + b"".join(data)


def _values(url: str) -> Iterator[tuple[str, bytes]]:
    with closing(redis.Redis.from_url(url)) as client:
        for key in client.scan_iter(count=1000):
            match client.type(key):
                case b"string":
                    value = client.get(key) or b""
                case b"hash":
                    value = repr(client.hgetall(key)).encode()
                case b"list":
                    value = b"\n".join(client.lrange(key, 0, -1))
                case b"stream":
                    value = repr(client.xrange(key)).encode()
                case b"set":
                    value = repr(client.smembers(key)).encode()
                case _:
                    value = repr(client.zrange(key, 0, -1)).encode()
            yield f"Redis {key.decode()}", value
