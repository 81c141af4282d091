"""The model card `artifacts/README.md`: what the model is, how it was made, what was measured, and its limits."""

from __future__ import annotations

import json
from typing import Any

from worker.recipes.common.job import Job
from worker.recipes.common.scores import worded
from worker.recipes.recipe import part

_LIBRARY = {"lightgbm": "lightgbm", "linear": "sklearn", "encoder": "transformers", "language_model": "transformers",
            "adapter": "peft", "base": "peft"}  # fmt: skip


def write_card(job: Job, facts: dict[str, Any]) -> None:
    """Write the card from the contents of `artifacts/metrics.json`; before evaluation nothing is measured."""
    split = json.loads((job.run_dir / "data/split.json").read_text(encoding="utf-8"))
    task = job.recipe.replace("_", "-")
    tag = getattr(part(job.recipe, "inspect"), "HUB_TASK", task)
    front = [
        "---",
        f"library_name: {_LIBRARY.get(str(facts.get('chosen')), 'sklearn')}",
        *([f"pipeline_tag: {tag}"] if tag else []),
        f"tags: [trainyard{f', {task}' if tag != task else ''}]",
        "---",
    ]
    parts = [
        *front,
        "",
        f"# Predicts “{split['target']}”" if split["target"] else f"# Model for {job.recipe.replace('_', ' ')}",
        "",
        facts.get("why", ""),
        "",
        "## Measured",
        "",
        *_measured(facts.get("test")),
        "",
        "## How it was made",
        "",
        *_made(job, facts, split),
        "",
        "## Use",
        "",
        "```sh",
        "pip install -r requirements.txt",
        "python predict.py rows.csv --out answers.csv",
        "```",
        "",
        "## Limits",
        "",
        *_limits(facts, split),
        "",
    ]
    (job.artifacts / "README.md").write_text("\n".join(parts), encoding="utf-8")


def _measured(test: dict[str, Any] | None) -> list[str]:
    if test is None:
        return ["Not measured on the test part yet."]
    results = {name: found for name, found in test.items() if isinstance(found, dict) and name != "sure"}
    metrics = sorted(results["model"], key=lambda name: name != test["metric"])
    lines = [
        f"On {test['rows']} rows that training did not see. **{test['metric']}** decides"
        f" ({'lower' if test.get('lower') else 'higher'} is better).",
        "",
        "| | " + " | ".join(metrics) + " |",
        "|---|" + "---|" * len(metrics),
    ]
    lines += [
        f"| {name} | " + " | ".join(worded(results[name][metric]) for metric in metrics) + " |"
        for name in sorted(results, key=lambda name: name != "model")
    ]
    if test.get("sure"):
        low, high = map(worded, test["sure"]["interval"])
        least, most = (worded(gain, sign=True) for gain in test["sure"]["gain"])
        lines += [
            "",
            f"On other rows like these, {test['metric']} lies between {low} and {high} in 95 of 100 cases, and its "
            f"advantage over the best baseline between {least} and {most}.",
        ]
    if not test["sealed"]:
        lines += ["", "The test labels were not sealed: training and evaluation ran in the same place."]
    return lines


def _made(job: Job, facts: dict[str, Any], split: dict[str, Any]) -> list[str]:
    settings = ", ".join(f"{name}={value}" for name, value in facts.get("settings", {}).items())
    lines = [
        f"- run `{job.run}`, recipe `{job.recipe}`, seed {job.seed}",
        f"- data `{job.dataset_name}`, sha256 `{split['source_sha256']}`: {split['train_rows']} rows to train, "
        f"{split['test_rows']} to measure",
        f"- settings: {settings}",
    ]
    if split.get("drawn_from"):
        lines.append(f"- these rows were drawn at random from the {split['drawn_from']:,} rows of the file")
    if split["how"]:
        lines.append(f"- how they were split: {split['how'].lstrip(',; ')}")
    if job.drop_columns:
        lines.append(f"- left out on request: {', '.join(job.drop_columns)}")
    if facts.get("ignored"):
        lines.append(f"- not used: {'; '.join(facts['ignored'])}")
    lines += [f"- {note}" for note in facts.get("notes", [])]
    if facts.get("stopped"):
        lines.append("- **training was stopped early**; this is the best model up to that point")
    return lines


def _limits(facts: dict[str, Any], split: dict[str, Any]) -> list[str]:
    return [
        *(f"- {limit}" for limit in facts.get("limits", [])),
        "- The score holds for rows like those of the data above; on others it may be worse.",
        f"- One split with {split['test_rows']} test rows: small differences between models are within chance.",
    ]
