"""The door to Slack: the composition root builds `bot.slack.door.SlackDoor`; nothing else knows Slack's words."""
