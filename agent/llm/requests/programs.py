"""Requests to run a program of somebody's own, to run it again, or to give it to a run."""

import re
from collections.abc import Sequence

from agent.llm.requests.asked import Request, last_plan, program_settings, ran_program
from agent.llm.requests.changes import changed
from agent.llm.requests.meant import ONCE_MORE, wanted
from agent.llm.requests.words import call, say
from agent.llm.slots.changes import changes_in
from agent.llm.slots.environment import environment_in, secrets_in, without_environment
from agent.llm.slots.files import DATA_FILE
from agent.llm.slots.limits import place_said, reach_said, soon_in
from agent.llm.slots.wanted import is_wished
from agent.ports import ModelMessage, ModelReply
from agent.tools.training.programs import REQUIREMENTS

_RUN_IT = re.compile(
    r"\b(?:(?<!the )(?<!this )(?<!that )(?<!my )(?<!el )(?<!al )(?<!le )(?<!du )(?<!ce )(?<!den )(?<!dem )(?<!este )run"
    r"|python3?|start|train|launch|execute|try|go with"
    r"|give (?:it|this) a (?:whirl|try|spin|go|shot)|^\W*(?:go|los|vas-y|dale|vamos)(?= |\W*$)|(?:fire|spin"
    r"|boot)(?: \w+)? up|kick(?: \w+)? off|get \w+ (?:going|running)"
    r"|starte?n?|ausf[üu]hr\w*|f[üu]hre?|lance[rz]?|ex[ée]cute[rz]?|d[ée]marre[rz]?"
    r"|ejec[uú]t\w+|c[oó]rr(?:e[rn]?|elo|erlo)|l[aá]nza\w*|entr[eé]na\w*|trainier\w*|lass\w*(?=.*\blaufen))\b|运行|执行"
    r"|启动|跑",
    re.IGNORECASE,
)
_PROGRAM = re.compile(r"(?<![\w./-])([\w.-]+\.(?:py|zip))\b")
_IMAGES = re.compile(r"\b(?:images?|photos?|photographs?|pictures?|scans?)\b", re.IGNORECASE)
_COMMAND_LINE = re.compile(
    r"(?:(?<=\s)|^)--?[A-Za-z][\w-]*(?:[= ](?!(?:on|with|and|for|using|at|please|pls"
    r"|auf|mit|und|bitte|an|aus|laufen|sur|avec|et|en"
    r"|con|y|[-–])(?:[\s,;]|$))\S*[^\s,;.])*"
)
_MEND = re.compile(
    r"\b(?:update|replace|use|new|fix(?:ed)?|change[ds]?|mend(?:ed)?|instead|script|skript|stattdessen|nimm|ersetze"
    r"|benutze|prends"
    r"|korrigiert\w*|remplace\w*|utilise\w*|corrigée?|usa|reemplaza|corregid[oa]|corregí|arreglad[oa]|c[aá]mbialo"
    r"|actualiza|repariert\w*|gefixt\w*|tausch\w*|neues|nouve(?:au|lle)|réparée?|nuev[oa])\b"
    r"|脚本|替换|换[成上掉]|改好|修[好了复]|新的|新版",
    re.IGNORECASE,
)

# A run that there is, where “run” is no order.
_THE_RUN = re.compile(
    r"\b(?:the|my|our|this|that|a|last|failed|crashed|broken|paused|stopped|running|same|old) (?:\w+ )?run\b"
    r"|(?<=-)run\b|\bruns\b",
    re.IGNORECASE,
)
# Beside the run that there is, not into it.
_APART = re.compile(
    r"\b(?:separate|own|another|second|new) (?:job|run|training|experiment)\b|\bseparately\b"
    r"|\b(?:do(?:n['’]t| not)|without) (?:touch|chang|replac|stopp?)\w*\b",
    re.IGNORECASE,
)
_MINE = re.compile(
    r"\b(?:use|take|with) (?:my|our|this|the attached) (?:own )?(?:code|script|program)\b", re.IGNORECASE
)
_NOT_IT = re.compile(
    r"\b(?:skip|ignore|without|forget(?: about)?|drop|leave|not|instead of|ohne|sans|sin)"
    r" (?:(?:my|the|this|our|mein\w*|mon|mi) )"
    r"(?:own )?(?:script|program|code|skript|programm)\b|别用我?的?(?:脚本|代码)"
    r"|\b(?:don['’]?t|do not|never) (?:bother with|use|touch|take|run|mind) (?:the|this|that|my) (?:attached )?(?:file"
    r"|script|code|attachment|program)\b|\b(?:skip|ignore) the (?:attached )?(?:file|attachment)\b",
    re.IGNORECASE,
)
_BEFORE_RUNNING = re.compile(r"\bbefore (?:we|you|i|anything)\b[^.;!?]*", re.IGNORECASE)
_LIKE_RUNNING = frozenset({"train", "again", "retry_run", "resume_run", "predict_as_job"})


def about_program(asked: Request, messages: Sequence[ModelMessage], run_id: str | None) -> ModelReply | None:
    """What is to be done with a program that is named, or with the newest one; None where none is meant."""
    program = program_in(asked)
    once_more = ONCE_MORE.search(asked.words) and not asked.files and ran_program(messages)
    if once_more and (program is not None or _COMMAND_LINE.search(asked.said)):
        return program_again(asked, messages, run_id)
    return None if program is None else _with_program(asked, program, run_id, messages)


def program_in(asked: Request) -> str | None:
    """The program that came with a request, or that it says to run by its name."""
    if asked.programs:
        return None if _NOT_IT.search(asked.words) else asked.programs[0]
    named = _PROGRAM.search(asked.words)
    if named and named.group(1) in asked.files:
        return None  # it came as data
    if named and _IMAGES.search(asked.words) and named.group(1).lower().endswith(".zip"):
        return None
    return str(named.group(1)) if named and _RUN_IT.search(_PROGRAM.sub(" ", asked.words)) else None


def _with_program(asked: Request, program: str, run_id: str | None, messages: Sequence[ModelMessage]) -> ModelReply:
    """Run it, or give it to a run that there is."""
    words = asked.words
    runs_it = _is_to_run(asked, messages)
    has_runs = bool(run_id or last_plan(messages)) or ran_program(messages)
    says_so = _MEND.search(words) or wanted(asked, messages) == "update_script"
    mends = run_id or (says_so and not _RUN_IT.search(_THE_RUN.sub(" ", _PROGRAM.sub(" ", words))))
    if program.endswith(".py") and has_runs and mends and is_wished(words) and not _APART.search(words):
        return call("update_script", run=run_id, file=program)
    if not runs_it:
        return say(
            f"Shall I run `{program}`? Say “run {program}”. To change a run that there is, say “update r-abc123 with "
            "this script”."
        )
    line = _COMMAND_LINE.search(words)
    rest = words[: line.start()] + words[line.end() :] if line else words
    said = changes_in(without_environment(rest)) | reach_said(rest)
    beside = [name for name in asked.files if name not in asked.programs]
    beside += [name for name in DATA_FILE.findall(words) if name not in beside]
    return call(
        "start_script",
        file=program,
        data=tuple(name for name in beside if name != REQUIREMENTS),
        requirements=REQUIREMENTS if REQUIREMENTS in beside else None,
        arguments=line.group().strip() if line else None,
        settings=said.get("settings"),
        environment=environment_in(words[: line.start()] if line else words),
        secrets=secrets_in(words),
        priority=soon_in(rest),
        **{name: said.get(name) for name in ("max_hours", "gpus", "host", "engine", "network", "auto_resume")},
    )


def _is_to_run(asked: Request, messages: Sequence[ModelMessage]) -> bool:
    """Whether a program is to be run: that is said, or how, or it is what the words are most like."""
    words = _BEFORE_RUNNING.sub(" ", _PROGRAM.sub(" ", asked.words))
    if not is_wished(words):
        return False
    if _APART.search(words) or _MINE.search(words):
        return True
    line = _COMMAND_LINE.search(words)
    rest = words.replace(line.group(), " ") if line else words
    how = line or place_said(rest) or environment_in(rest) or secrets_in(rest) or reach_said(rest)
    return bool(_RUN_IT.search(words) or how) or wanted(asked, messages) in _LIKE_RUNNING


def program_again(asked: Request, messages: Sequence[ModelMessage], run_id: str | None) -> ModelReply:
    """The newest program once more, with other options: `--lr 2` as it is written, or settings in words.

    Raises:
        BadRequest: a setting is to be changed in words that say no number.
    """
    line = _COMMAND_LINE.search(asked.said)
    words = asked.words if line is None else asked.words.replace(line.group(), " ")
    changes = changed(words, program_settings(messages))
    return call("clone_run", run=run_id, arguments=line.group().strip() if line else None, **changes)
