"""The Slack app as Slack wants it described; `trainyard manifest` prints it.

The scopes stand here and nowhere else: `bot.slack.check` compares them with what the token has.
"""

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
    "usergroups:read",
    "users:read",
)
NEEDED_SCOPES = ("app_mentions:read", "channels:history", "chat:write", "commands", "files:read", "files:write")
BOT_EVENTS = (
    "agent_session_stopped",
    "app_mention",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
)


def manifest() -> dict[str, object]:
    """The manifest of an app in Socket Mode."""
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
            "slash_commands": [
                {
                    "command": "/train",
                    "description": "Train, watch and use models",
                    "usage_hint": "status | runs | stop r-… | help",
                    "should_escape": False,
                }
            ],
        },
        "oauth_config": {"scopes": {"bot": list(BOT_SCOPES)}},
        "settings": {
            "event_subscriptions": {"bot_events": list(BOT_EVENTS)},
            "interactivity": {"is_enabled": True},
            "org_deploy_enabled": False,
            "socket_mode_enabled": True,
            "token_rotation_enabled": False,
        },
    }
