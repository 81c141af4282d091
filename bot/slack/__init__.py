"""The Slack adapter: the composition root builds `bot.slack.adapter.SlackAdapter`; nobody else knows Slack's words."""
