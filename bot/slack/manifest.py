"""The Slack app as Slack wants it described. `python -m bot.slack.manifest > slack_manifest.json`, then create the app.

The scopes stand here and nowhere else: `bot.slack.check` compares them with what the token has.
"""

import json
import sys

BOT_SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:write",
    "users:read",
)
NEEDED_SCOPES = ("app_mentions:read", "channels:history", "chat:write", "commands", "files:read", "files:write")
BOT_EVENTS = (
    "agent_session_stopped",
    "app_home_opened",
    "app_mention",
    "app_uninstalled",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "tokens_revoked",
)


EXAMPLE_URL = "https://example.com/slack/events"


def manifest(command: str = "/train", *, socket_mode: bool = True, url: str = EXAMPLE_URL) -> dict[str, object]:
    """The manifest; `url` is where Slack reaches us without Socket Mode."""
    slash: dict[str, object] = {
        "command": command,
        "description": "Train, watch and use models",
        "usage_hint": "status | runs | stop r-… | help",
        "should_escape": False,
    }
    events: dict[str, object] = {"bot_events": list(BOT_EVENTS)}
    interactivity: dict[str, object] = {"is_enabled": True}
    if not socket_mode:
        slash["url"] = events["request_url"] = interactivity["request_url"] = url
    return {
        "display_information": {
            "name": "Trainyard",
            "description": "The ML engineer that lives in your workspace",
            "background_color": "#1f2933",
        },
        "features": {
            "bot_user": {"display_name": "trainyard", "always_online": True},
            "app_home": {
                "home_tab_enabled": False,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "agent_view": {
                "agent_description": "Trains models on your own GPUs, from a message to a measured model.",
                "suggested_prompts": [
                    {"title": "What can you do?", "message": "What can you do?"},
                    {"title": "What is running?", "message": "status"},
                ],
            },
            "slash_commands": [slash],
        },
        "oauth_config": {"scopes": {"bot": list(BOT_SCOPES)}},
        "settings": {
            "event_subscriptions": events,
            "interactivity": interactivity,
            "org_deploy_enabled": False,
            "socket_mode_enabled": socket_mode,
            "token_rotation_enabled": False,
        },
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(manifest(), indent=2) + "\n")
