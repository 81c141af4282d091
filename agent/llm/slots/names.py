"""The settings of trainings by the names that people give them, under the recipes' names."""

import re

# Those that mean a setting wherever they stand; the others only beside a number.
_PLAIN = {
    "learning_rate": r"learning[ _-]?rates?|lr",
    "epochs": r"epochs?",
    "rounds": r"(?:boosting )?rounds?|n_estimators|num_boost_rounds?",
    "batch_size": r"batch[ _-]?sizes?",
    "seed": r"(?:random[ _])?seeds?|random[ _]state",
    "num_leaves": r"num[ _]leaves",
    "max_steps": r"max[ _]steps",
    "max_length": r"max(?:imum)?[ _](?:seq(?:uence)?[ _])?len(?:gth)?|seq(?:uence)?[ _]len(?:gth)?",
    "max_new_tokens": r"max[ _]new[ _]tokens",
    "early_stopping_patience": r"(?:early[ _-]stopping[ _])?patience",
    "trials": r"trials",
    "block_length": r"(?:block|context)[ _](?:length|size|window)",
    "lora_r": r"lora[ _](?:r|rank)",
    "lora_alpha": r"lora[ _]alpha",
    "lora_dropout": r"lora[ _]dropout",
    "hidden_size": r"hidden[ _](?:size|dim(?:ension)?|units)",
    "weight_decay": r"weight[ _]decay",
    "dropout": r"dropout(?:[ _]rate)?",
    "max_depth": r"max(?:imum)?[ _]depth",
    "image_size": r"im(?:age|g)[ _-]?size",
    "gradient_accumulation_steps": r"(?:grad(?:ient)?[ _])?accum(?:ulation)?(?:[ _]steps)?",
    "warmup_frac": r"warm-?up(?:[ _](?:frac(?:tion)?|ratio))?",
    "label_smoothing": r"label[ _]smoothing",
    "valid_frac": r"valid(?:ation)?[ _](?:frac(?:tion)?|share)",
    "min_data_in_leaf": r"min[ _](?:data[ _]in[ _]leaf|child[ _]samples)",
    "lambda_l2": r"(?:lambda[ _])?l2(?: regulari[sz]ation)?|reg[ _]lambda",
    "feature_fraction": r"feature[ _]fraction|colsample(?:[ _]bytree)?",
    "bagging_fraction": r"bagging[ _]fraction|subsample",
    "max_grad_norm": r"max[ _]grad[ _]norm|gradient clipping",
    "num_generations": r"num[ _]generations|generations(?: per prompt)?",
}
_COUNTED = {
    "learning_rate": r"eta|(?<!drop-out )(?<!dropout )(?<!churn )(?<!error )rate|step size",
    "early_stopping_patience": r"early[ -]stop(?:ping)?(?: after| at| of)?",
    "block_length": r"context(?: of)?",
    "weight_decay": r"wd",
    "max_steps": r"(?:training |train )?steps(?! (?:ahead|out|into|forward))",
    "max_new_tokens": r"(?:new|output|target|summary)[ _]tokens",
    "min_data_in_leaf": r"(?:samples|rows|examples) (?:per|in (?:a|each|every)) leaf",
    "rounds": r"trees|estimators|(?:boosting )?iterations",
    "batch_size": r"bs|batch(?:es)?",
    "num_leaves": r"leaves",
    "lora_r": r"rank|r",
    "lora_alpha": r"alpha",
    "max_depth": r"(?:tree )?depth|levels deep",
    "image_size": r"px|pixels|resolution",
    "beams": r"(?:num[ _])?beams?(?:[ _]size)?",
    "layers": r"(?:num[ _])?layers?",
    "heads": r"(?:attention )?heads",
    "max_tokens": r"max[ _]tokens|tokens",
    "vocabulary": r"vocab(?:ulary)?(?:[ _]size)?",
    "temperature": r"temperature",
    "beta": r"beta",
    "season": r"season(?:[ _]length)?",
    "windows": r"(?:validation |rolling )?windows",
    "resamples": r"resamples|bootstraps",
    "max_k": r"max[ _]k",
    "folds": r"folds?",
}
# Settings whose values are no counts.
FRACTIONS = frozenset(
    {
        *("learning_rate", "dropout", "lora_dropout", "weight_decay", "warmup_frac", "label_smoothing", "valid_frac"),
        *("lambda_l2", "feature_fraction", "bagging_fraction", "max_grad_norm", "temperature", "beta"),
    }
)
_EVERY = (*_PLAIN.items(), *_COUNTED.items())
_ALL = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _EVERY)
NAME = rf"(?:{'|'.join(_PLAIN.values())})"
NUMBERED = rf"(?:{'|'.join(pattern for _, pattern in _EVERY)})"


def setting_called(said: str) -> str:
    """The recipes' name of a setting by the one that a person gave it."""
    plain = " ".join(said.split())
    return next((name for name, pattern in _ALL if pattern.fullmatch(plain)), plain.lower().replace(" ", "_"))
