"""The checks that Discord makes before it takes a message: sizes, components, embeds, files, commands."""

import re

from tests.platforms.discord_world import STRING_SELECT, ApiError, Json, Limits, bad_form


def check_message(form: Json, files: dict[int, tuple[str, bytes]], limits: Limits, *, new: bool) -> None:
    """Raise what Discord would answer to this body."""
    content = form.get("content") or ""
    if _length(content) > limits.content:
        raise bad_form("content", f"Must be {limits.content} or fewer in length.")
    embeds = form.get("embeds") or []
    if len(embeds) > limits.embeds:
        raise bad_form("embeds", f"Must be {limits.embeds} or fewer in length.")
    for n, embed in enumerate(embeds):
        _check_embed(embed, f"embeds.{n}", limits)
    if sum(map(_embed_size, embeds)) > limits.embed_sum:
        raise bad_form("embeds", f"Embed size exceeds maximum size of {limits.embed_sum}", "MAX_EMBED_SIZE_EXCEEDED")
    _check_components(form.get("components") or [], limits)
    if len(str(form.get("nonce") or "")) > limits.nonce:
        raise bad_form("nonce", f"Must be {limits.nonce} or fewer in length.")
    if any(len(data) > limits.file_bytes for _, data in files.values()):
        raise ApiError(413, 40005, "Request entity too large")
    if sum(len(data) for _, data in files.values()) > limits.request_bytes:
        raise ApiError(413, 40005, "Request entity too large")
    if new and not (content.strip() or embeds or files or form.get("components")):
        raise ApiError(400, 50006, "Cannot send an empty message")


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _embed_size(embed: Json) -> int:
    texts = [embed.get("title"), embed.get("description"), embed.get("footer", {}).get("text")]
    texts += [embed.get("author", {}).get("name")]
    texts += [text for shown in embed.get("fields", ()) for text in (shown["name"], shown["value"])]
    return sum(_length(text or "") for text in texts)


def _check_embed(embed: Json, where: str, limits: Limits) -> None:
    for name, text, most in (
        ("title", embed.get("title"), limits.title),
        ("description", embed.get("description"), limits.description),
        ("footer.text", embed.get("footer", {}).get("text"), limits.footer),
    ):
        if _length(text or "") > most:
            raise bad_form(f"{where}.{name}", f"Must be {most} or fewer in length.")
    fields = embed.get("fields", [])
    if len(fields) > limits.fields:
        raise bad_form(f"{where}.fields", f"Must be {limits.fields} or fewer in length.")
    for n, shown in enumerate(fields):
        for name, most in (("name", limits.field_name), ("value", limits.field_value)):
            if not shown[name].strip():
                raise bad_form(f"{where}.fields.{n}.{name}", "This field is required", "BASE_TYPE_REQUIRED")
            if _length(shown[name]) > most:
                raise bad_form(f"{where}.fields.{n}.{name}", f"Must be {most} or fewer in length.")


def _check_components(rows: list[Json], limits: Limits) -> None:
    if len(rows) > limits.rows:
        raise bad_form("components", f"Must be {limits.rows} or fewer in length.")
    seen: set[str] = set()
    for r, row in enumerate(rows):
        parts = row.get("components", [])
        if row.get("type") != 1 or not 1 <= len(parts) <= limits.row_buttons:
            raise bad_form(f"components.{r}", f"Must be between 1 and {limits.row_buttons} in length.")
        if len(parts) > 1 and any(part.get("type") == STRING_SELECT for part in parts):
            raise bad_form(f"components.{r}", "The specified component exceeds the maximum width", "COMPONENT_WIDTH")
        for p, part in enumerate(parts):
            where, custom_id = f"components.{r}.components.{p}", part.get("custom_id", "")
            if not 1 <= _length(custom_id) <= limits.custom_id:
                raise bad_form(f"{where}.custom_id", f"Must be between 1 and {limits.custom_id} in length.")
            if part.get("type") == STRING_SELECT:
                _check_menu(part, where, limits)
            elif _length(part.get("label") or "") > limits.label or not part.get("label"):
                raise bad_form(f"{where}.label", f"Must be between 1 and {limits.label} in length.")
            if custom_id in seen:
                raise bad_form(
                    f"{where}.custom_id", "Component custom id cannot be duplicated", "COMPONENT_CUSTOM_ID_DUPLICATED"
                )
            seen.add(custom_id)


def _check_menu(menu: Json, where: str, limits: Limits) -> None:
    """discord.com/developers/docs/components/reference#string-select; more defaults than `max_values`, and a
    `max_values` above the number of options, are refused with codes that are not documented."""
    options, least, most = menu.get("options", []), menu.get("min_values", 1), menu.get("max_values", 1)
    if _length(menu.get("placeholder") or "") > limits.placeholder:
        raise bad_form(f"{where}.placeholder", f"Must be {limits.placeholder} or fewer in length.")
    if not 1 <= len(options) <= limits.options:
        raise bad_form(f"{where}.options", f"Must be between 1 and {limits.options} in length.")
    for o, option in enumerate(options):
        for name in ("label", "value"):
            if not option.get(name, "").strip():
                raise bad_form(f"{where}.options.{o}.{name}", "This field is required", "BASE_TYPE_REQUIRED")
            if _length(option[name]) > limits.option:
                raise bad_form(f"{where}.options.{o}.{name}", f"Must be between 1 and {limits.option} in length.")
        if option["value"] in [before["value"] for before in options[:o]]:
            code = "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED"
            raise bad_form(f"{where}.options.{o}", "The specified option value is already used", code)
    if not 0 <= least <= limits.options or not max(least, 1) <= most <= min(limits.options, len(options)):
        raise bad_form(f"{where}.max_values", "Must be a number of options", "NUMBER_TYPE_MAX")
    if sum(bool(option.get("default")) for option in options) > most:
        raise bad_form(f"{where}.options", "Too many options are chosen by default", "TOO_MANY_DEFAULTS")


_OPTION_NAME = re.compile(r"[-_\w]{1,32}")
_SUB_COMMAND, _SUB_GROUP, _STRING, _WHOLE, _NUMBER = 1, 2, 3, 4, 10


def check_commands(commands: list[Json], limits: Limits) -> None:
    """Raise what Discord would answer to these application commands."""
    for n, command in enumerate(commands):
        if _command_chars(command) > limits.command_chars:
            raise bad_form(f"{n}", f"Command exceeds maximum size of {limits.command_chars}")
        _check_options(command, str(n), depth=0)


def _check_options(command: Json, where: str, *, depth: int) -> None:
    options = command.get("options") or []
    if len(options) > 25:
        raise bad_form(f"{where}.options", "Must be 25 or fewer in length.")
    if not 1 <= len(command["name"]) <= 32 or not 1 <= len(command["description"]) <= 100:
        raise bad_form(where, "Must be between 1 and 100 in length.")
    if not _OPTION_NAME.fullmatch(command["name"]) or command["name"] != command["name"].lower():
        raise bad_form(f"{where}.name", "Command name is invalid", "APPLICATION_COMMAND_INVALID_NAME")
    if len({option["name"] for option in options}) < len(options):
        raise bad_form(
            f"{where}.options", "Option names must be unique", "APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS"
        )
    kinds = [option["type"] for option in options]
    folders = [kind for kind in kinds if kind in {_SUB_COMMAND, _SUB_GROUP}]
    if folders and (len(folders) < len(kinds) or depth > 1 or (depth == 1 and _SUB_GROUP in kinds)):
        raise bad_form(
            f"{where}.options", "Sub-command option types are invalid here", "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID"
        )
    needed = [bool(option.get("required")) for option in options]
    if needed != sorted(needed, reverse=True):
        raise bad_form(f"{where}.options", "Required options must be placed before non-required options")
    for n, option in enumerate(options):
        _check_choices(option, f"{where}.options.{n}")
        _check_options(option, f"{where}.options.{n}", depth=depth + 1)


def _check_choices(option: Json, where: str) -> None:
    choices = option.get("choices") or []
    if len(choices) > 25:
        raise bad_form(f"{where}.choices", "Must be 25 or fewer in length.")
    if any(not 1 <= len(choice["name"]) <= 100 or len(str(choice["value"])) > 100 for choice in choices):
        raise bad_form(f"{where}.choices", "Must be between 1 and 100 in length.")
    if option.get("autocomplete") and (choices or option["type"] not in {_STRING, _WHOLE, _NUMBER}):
        raise bad_form(f"{where}.autocomplete", "Autocomplete is not available here")


def _command_chars(command: Json) -> int:
    inside = sum(_command_chars(option) for option in command.get("options") or ())
    chosen = sum(len(choice["name"]) + len(str(choice["value"])) for choice in command.get("choices") or ())
    return len(command["name"]) + len(command["description"]) + inside + chosen
