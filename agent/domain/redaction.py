"""Takes secrets out of log lines and chat messages: granted values, and whatever looks like a well-known token.

Owns the table of token shapes and the forms in which a known value may turn up. Knows neither files nor pipes, and
keeps nothing but whether a private key is being printed. Called by the supervisor for each line before it is stored, by
the sessions for each message before it is stored, by the dispatcher for what tools give, and by the logs of the bot and
of its gateway.
In what people and models write it also finds what is named as a secret, and a known token that is broken over lines or
in base64.
Does not find what is cut up, encrypted or encoded in another way, such as the halves of a token in two messages, or a
granted value in base32 or in base64 twice: a script that has a secret and a wish to print it can do so. The walls and
the short list of granted names stand against that, not this.
"""

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, quote_plus

from pydantic import JsonValue

SHORTEST_SECRET = 8  # characters; anything shorter would blot out ordinary words
_SHORTEST_RUN = 20  # the shortest token of the table (an AWS key id) is one run of this many token characters
_KEY_LINES = 200  # a private key is over after so many lines, whatever they say (RSA of 8192 bits has 100)
_WORD = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"
_RUNS = bytes(0x61 if byte in _WORD else 0x20 for byte in range(256))
_LONG_RUN = b"a" * _SHORTEST_RUN


@dataclass(frozen=True, slots=True)
class Shape:
    """How tokens of one kind look. `hints`: a line that has none of these has no such token."""

    kind: str
    hints: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


def _shape(kind: str, hints: str, pattern: str) -> Shape:
    return Shape(kind, tuple(hint.encode() for hint in hints.split()), re.compile(pattern.encode()))


# Prefixes and lengths as in the rules of gitleaks 8 and the documentation of each service; the narrower comes first.
SHAPES: tuple[Shape, ...] = (
    _shape("huggingface", "hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}"),
    _shape("huggingface", "api_org_", r"(?<![A-Za-z0-9])api_org_[A-Za-z0-9]{30,}"),
    _shape("anthropic", "sk-ant-", r"(?<![A-Za-z0-9])sk-ant-[\w-]{20,}"),
    _shape("openrouter", "sk-or-", r"(?<![A-Za-z0-9])sk-or-[\w-]{20,}"),
    _shape("openai", "sk-", r"(?<![A-Za-z0-9])sk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,}|[A-Za-z0-9]{32,})"),
    _shape("slack", "xox", r"(?<![A-Za-z0-9])xox[abeoprs](?:\.xox[bp])?-[\w-]{10,}"),
    _shape("slack", "xapp-", r"(?<![A-Za-z0-9])xapp-\d-[\w-]{8,}"),
    _shape("slack-webhook", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{20,}"),
    _shape("discord-webhook", "/api/webhooks/", r"(?<=/api/webhooks/)\d{17,20}/[\w-]{30,}"),
    _shape("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{36,}"),
    _shape("github", "github_pat_", r"github_pat_\w{40,}"),
    _shape("gitlab", "glpat-", r"(?<![A-Za-z0-9])glpat-[\w-]{20,}"),
    _shape("aws", "AKIA ASIA", r"(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape(
        "aws", "aws_secret AWS_SECRET", r"(?<=(?i:aws_secret_access_key))[\"' ]{0,3}[=:][\"' ]{0,3}[A-Za-z0-9/+]{40}"
    ),
    _shape("google", "AIza", r"(?<![A-Za-z0-9])AIza[\w-]{35}"),
    _shape("google", "GOCSPX- ya29.", r"(?<![A-Za-z0-9])(?:GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,})"),
    _shape("wandb", "wandb_v1_", r"(?<![A-Za-z0-9])wandb_v1_[\w-]{20,}"),
    _shape("kaggle", "KGAT_", r"(?<![A-Za-z0-9])KGAT_[A-Za-z0-9]{20,}"),
    _shape("groq", "gsk_", r"(?<![A-Za-z0-9])gsk_[A-Za-z0-9]{40,}"),
    _shape("replicate", "r8_", r"(?<![A-Za-z0-9])r8_[A-Za-z0-9]{30,}"),
    _shape("pypi", "pypi-Ag", r"(?<![A-Za-z0-9])pypi-Ag[\w-]{40,}"),
    _shape("xai", "xai-", r"(?<![A-Za-z0-9])xai-[A-Za-z0-9]{20,}"),
    _shape("nvidia", "nvapi-", r"(?<![A-Za-z0-9])nvapi-[\w-]{20,}"),
    _shape("tavily", "tvly-", r"(?<![A-Za-z0-9])tvly-[\w-]{20,}"),
    _shape("digitalocean", "dop_v1_ doo_v1_ dor_v1_", r"(?<![A-Za-z0-9])do[opr]_v1_[a-f0-9]{20,}"),
    _shape("sendgrid", "SG.", r"(?<![A-Za-z0-9])SG\.[\w-]{16,}\.[\w-]{32,}"),
    _shape("webhook", "whsec_", r"(?<![A-Za-z0-9])whsec_[A-Za-z0-9+/=]{20,}"),
    _shape("linear", "lin_api_", r"(?<![A-Za-z0-9])lin_api_[A-Za-z0-9]{20,}"),
    _shape("npm", "npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}"),
    _shape("stripe", "k_live_ k_test_", r"(?<![A-Za-z0-9])[sr]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    # From where its run of characters begins, so that each is read once, however many "eyJ" are in it.
    _shape("jwt", "eyJ", r"(?<![\w-])(?=[\w-]*eyJ[\w-]{10})[\w-]+\.eyJ[\w-]{10,}\.[\w-]{10,}"),
)
# These have no prefix that is rare enough, or are no one run of token characters.
_DISCORD = re.compile(rb"\.[\w-]{6}\.[\w-]{27,}")
_DISCORD_HEAD = re.compile(rb"[MNO][\w-]{23,27}\Z")
_DISCORD_HEAD_BYTES = 28
_URL_PASSWORD = re.compile(rb"(?<=://)[^\s/:@'\"]{0,128}:[^\s/@'\"]{1,512}(?=@)")
_BEGINS = b"-----BEGIN "
_KEY_BEGINS = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(rb"\s*(?:[A-Za-z0-9+/=]|\\[nr])*\s*\Z|[A-Z][A-Za-z-]{2,20}: [^\n]{0,120}\s*\Z")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_URL_SAFE = str.maketrans("-_", "+/")
_LAST_WORD, _FIRST_WORD = re.compile(r"(?<![\w.-])[\w.-]+\Z"), re.compile(r"[ \t]*([\w.-]+)")
_BROKEN_LINES = 4  # below its first, over which a token is looked for
_CODE = re.compile(r"[$%/~.]|.*[()\[\]<>{}]")  # or a path, or what stands for a value
_HEX = re.compile(r"[0-9a-fA-F]{32,}")
_HAS_DIGIT = re.compile(r"\d")
_HINTS = re.compile("|".join(re.escape(hint.decode()) for shape in SHAPES for hint in shape.hints))
_HUB_ID = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*")
_LEAST_BITS = 3.5  # a character of a random value of 16 signs has 3.6 to 4; words have less
_MARKS = re.compile(r"\[secret: ([\w -]{1,30})\]")


class Redactor:
    """One stream of lines. Keeps between lines only whether it is inside of a private key."""

    def __init__(self, secrets: Sequence[str]) -> None:
        """`secrets` are the values to blot out wherever they stand; those under eight characters are left alone."""
        forms = {form for secret in secrets for form in _forms(secret)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))  # the longer first: it may contain the shorter
        self._key_lines_left = 0

    @property
    def longest(self) -> int:
        """Bytes of the longest form of a known value."""
        return len(self._forms[0]) if self._forms else 0

    def line(self, data: bytes, *, cut: bool = False) -> bytes:
        """The line with `[secret: <kind>]` in place of each secret.

        `data` is one line of any length, with or without its end. `cut`: the line went on and the rest is not shown, so
        that its last bytes may be the beginning of a known value.
        """
        for form in self._forms:
            if form in data:
                data = data.replace(form, _mark("granted"))
        if cut:
            data = self._without_beginning(data)
        if self._key_lines_left or _BEGINS in data:
            data = self._without_key(data)
        if _LONG_RUN in data.translate(_RUNS):
            data = _without_tokens(data)
        if b"://" in data and b"@" in data:
            data = _URL_PASSWORD.sub(_mark("password"), data)
        return data

    def text(self, text: str) -> str:
        """Each line of a text, which is no part of what was read before."""
        self._key_lines_left = 0
        lines = text.encode(errors="replace").split(b"\n")
        clean = b"\n".join(map(self.line, lines)).decode(errors="replace")
        self._key_lines_left = 0
        return clean

    def skip(self, data: bytes) -> None:
        """Lines that nobody will see: all that counts is whether a private key goes on after them."""
        begins = data.rfind(_BEGINS)
        if begins >= 0:
            self._key_lines_left = 0
        for line in data[max(begins, 0) :].split(b"\n", _KEY_LINES + 1) if self._key_lines_left or begins >= 0 else ():
            self._without_key(line)

    def _without_beginning(self, data: bytes) -> bytes:
        for form in self._forms:
            for length in range(min(len(form) - 1, len(data)), SHORTEST_SECRET - 1, -1):
                if data.endswith(form[:length]):
                    return data[:-length] + _mark("granted")
        return data

    def _without_key(self, data: bytes) -> bytes:
        """A private key goes over many lines: all of them until its end, or until a line that cannot be of a key."""
        inside = self._key_lines_left > 0
        begins = None if inside else _KEY_BEGINS.search(data)
        if not inside and begins is None:
            return data
        head, rest = (data[: begins.start()], data[begins.end() :]) if begins else (b"", data)
        self._key_lines_left = self._key_lines_left - 1 if inside else _KEY_LINES
        ends = _KEY_ENDS.search(rest)
        if ends is not None:
            self._key_lines_left = 0
            return head + _mark("private-key") + self._without_key(rest[ends.end() :])
        if not _KEY_LINE.match(rest):
            self._key_lines_left = 0
            if inside:
                return data
        return head + _mark("private-key") + (b"\n" if data.endswith(b"\n") else b"")


@dataclass(frozen=True, slots=True)
class _Named:
    """A value after words that say what it is. `hints` as of a shape, in small letters; `is_secret` tells by the value.

    The pattern's groups: the words with what stands between, the kind among them, the value.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    is_secret: Callable[[str], bool]

    def without(self, found: re.Match[str]) -> str:
        """The words without the value."""
        value = found[3].rstrip(".:!?")
        mark = f"[secret: {found[2].lower()}]"
        return f"{found[1]}{mark}{found[3][len(value) :]}" if self.is_secret(value) else found[0]


def _named(hints: str, pattern: str, is_secret: Callable[[str], bool]) -> _Named:
    return _Named(tuple(hints.split()), re.compile(f"(?i)(?<![a-z]){pattern}"), is_secret)


def without_secrets(text: str) -> tuple[str, tuple[str, ...]]:
    """A message of a person without the secrets in it, and of which kinds these were.

    Beside the known shapes: values right after words such as token or password, which are common in logs, where this
    would blot out hashes, and known shapes in base64 or broken over lines.
    """
    clean = _ENCODED.sub(_without_encoded, _without_broken(Redactor(()).text(text)))
    lowered = clean.lower()
    for named in _NAMED:
        if any(hint in lowered for hint in named.hints):
            clean = named.pattern.sub(named.without, clean)
    if clean == text:
        return text, ()
    return clean, tuple(sorted(Counter(_MARKS.findall(clean)) - Counter(_MARKS.findall(text)))) or ("unknown",)


def hidden(value: JsonValue) -> JsonValue:
    """The same JSON without the secrets in its texts. Lines in a list are one text: a key goes over many."""
    match value:
        case str():
            return without_secrets(value)[0]
        case list() if value and all(isinstance(part, str) and "\n" not in part for part in value):
            return list(without_secrets("\n".join(map(str, value)))[0].split("\n"))
        case list():
            return [hidden(part) for part in value]
        case dict():
            return {name: hidden(part) for name, part in value.items()}
        case _:
            return value


def marks_in(text: str) -> int:
    """How often a text has a mark in place of a secret."""
    return len(_MARKS.findall(text))


def _without_broken(text: str) -> str:
    """A text without known tokens that go on in the next line."""
    if not _HINTS.search(text):
        return text
    lines = text.split("\n")
    for at in range(len(lines) - 1):
        begins = _LAST_WORD.search(lines[at].rstrip(" \t\r\\"))
        if begins is None or not _HINTS.search(begins[0]):
            continue
        word, kind, parts = begins[0].encode(), "", list[re.Match[str]]()
        shapes = [shape for shape in SHAPES if any(hint in word for hint in shape.hints)]
        for line in lines[at + 1 : at + 1 + _BROKEN_LINES]:
            part = _FIRST_WORD.match(line)
            if part is None or (kind and not (len(part[1]) >= SHORTEST_SECRET and _HAS_DIGIT.search(part[1]))):
                break
            word += part[1].encode()
            parts.append(part)
            kind = kind or next((shape.kind for shape in shapes if shape.pattern.search(word)), "")
            if line[part.end() :].strip(" \t\r\\"):
                break
        if kind and any(map(str.isdigit, word.decode())):
            lines[at] = f"{lines[at][: begins.start()]}[secret: {kind}]"
            for below, part in enumerate(parts, at + 1):
                lines[below] = lines[below][part.end() :]
    return "\n".join(lines)


def _without_encoded(found: re.Match[str]) -> str:
    """A run of base64, or a mark where it has a known token inside. What stands before it may look like its part."""
    run = found[0].rstrip("=").translate(_URL_SAFE)
    if run.lower() == run or run.upper() == run:
        return found[0]
    for begin in range(4):
        part = run[begin:]
        part = part[: len(part) - (len(part) % 4 == 1)]
        if kind := _kind_in(base64.b64decode(part + "=" * (-len(part) % 4))):
            return f"[secret: {kind}]"
    return found[0]


def _kind_in(data: bytes) -> str:
    """The kind of a known token in a text, empty for none."""
    clean = Redactor(()).line(data)
    found = _MARKS.search(clean.decode(errors="replace")) if clean != data else None
    return found[1] if found else ""


def _is_password(value: str) -> bool:
    """Whether a value has letters and something else, and is neither a name nor code nor a path."""
    return _is_passphrase(value) and not re.fullmatch(r"[\W\d]+|[^\W\d_]+(?:[_.-][^\W\d_]+)*(?:[_.-]\d+)?", value)


def _is_passphrase(value: str) -> bool:
    """Whether a value is more than a word, and neither code nor a path."""
    return len(value) >= SHORTEST_SECRET and not value.isalpha() and not _CODE.match(value)


def _is_header(value: str) -> bool:
    """Whether a value is no word and no name of a variable."""
    return not (value.islower() or value.isupper()) or bool(_HAS_DIGIT.search(value))


def _is_random(value: str) -> bool:
    """Whether a value is made by a machine: long hexadecimal digits, or small, capital letters and digits mixed."""
    if _HEX.fullmatch(value):
        return True
    mixed = all(any(test(sign) for sign in value) for test in (str.islower, str.isupper, str.isdigit))
    counts = [value.count(sign) / len(value) for sign in set(value)]
    return mixed and not _HUB_ID.fullmatch(value) and -sum(share * math.log2(share) for share in counts) > _LEAST_BITS


_IS = r"s?[\"'`]?(?:\s{0,3}[:=]\s{0,3}|\s{1,3}is\s{1,3})[\"'`]?"
_STANDS = r"s?[\"'`]?(?:\s{0,3}[:=]\s{0,3}|\s{1,3}is\s{1,3}|\s{1,3})[\"'`]?"
_HEX_32 = r"([0-9a-f]{32})(?![0-9a-f])"
# The narrower comes first.
_NAMED: tuple[_Named, ...] = (
    _named(
        "authorization",
        r"((authorization)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|bearer|token)\s{1,3})([\w+/=.~-]{8,4096})",
        _is_header,
    ),
    _named("bearer", r"((bearer)\s{1,3})([\w+/=.~-]{16,4096})", lambda value: bool(_HAS_DIGIT.search(value))),
    _named("kaggle", rf"((kaggle)[ _-]?(?:api[ _-]?)?key{_STANDS}){_HEX_32}", str.isalnum),
    _named(  # kaggle.json
        "username",
        rf"(username[\"']\s{{0,9}}:\s{{0,9}}[\"'][\w .-]{{1,64}}[\"']\s{{0,9}},\s{{0,9}}[\"'](key){_IS}){_HEX_32}",
        str.isalnum,
    ),
    _named(
        "token passw secret credential key",
        r"((token|password|passwd|secret|credential|api[ _-]?key|access[ _-]?key)"
        rf"{_STANDS})([\w+/=.~-]{{15,512}}[\w+/=])",
        _is_random,
    ),
    _named("passw pwd", rf"((password|passwd|pwd){_IS})([^\s\"'`,;]{{8,512}})", _is_password),
    _named("passphrase", rf"((passphrase){_IS})([^\s\"'`,;]{{8,512}})", _is_passphrase),
)


def _without_tokens(data: bytes) -> bytes:
    for shape in SHAPES:
        if any(hint in data for hint in shape.hints):
            data = shape.pattern.sub(_mark(shape.kind), data)
    return _without_discord(data) if data.count(b".") > 1 else data


def _without_discord(data: bytes) -> bytes:
    """A Discord bot's token is three parts between dots; its first part is looked for backwards from the first dot."""
    kept, done = [], 0
    for found in _DISCORD.finditer(data):
        begin = max(done, found.start() - _DISCORD_HEAD_BYTES)
        head = _DISCORD_HEAD.search(data, begin, found.start())
        if head is not None:
            kept += [data[done : head.start()], _mark("discord")]
            done = found.end()
    return b"".join((*kept, data[done:]))


def _mark(kind: str) -> bytes:
    return f"[secret: {kind}]".encode()


def _forms(secret: str) -> set[bytes]:
    """What a value looks like as it is, in JSON, in Python's repr, in a URL, in hex, backwards and in base64."""
    if "\n" in secret.strip():  # lines of output carry one line of it at a time
        return {form for part in secret.splitlines() for form in _forms(part)} | _forms(secret.replace("\n", "\\n"))
    secret = secret.strip()
    raw = secret.encode()
    texts = [secret, secret[::-1], json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    texts += [
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        raw.hex(),
        raw.hex().upper(),
    ]
    forms = {text.encode() for text in texts}
    for before in range(3):  # base64 of a text that has the value inside depends on how many bytes stand before it
        forms |= _base64_of(raw, before)
    return {form for form in forms if len(form) >= SHORTEST_SECRET} if len(secret) >= SHORTEST_SECRET else set()


def _base64_of(raw: bytes, before: int) -> set[bytes]:
    """The characters of a base64 text that depend on `raw` alone, with `before` other bytes in front of it."""
    skipped = (0, 2, 3)[before]
    whole = (before + len(raw)) * 8 // 6
    inside = slice(skipped, whole)
    padded = b"\0" * before + raw
    return {base64.b64encode(padded)[inside], base64.urlsafe_b64encode(padded)[inside]}
