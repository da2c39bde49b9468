"""The slash commands of chats: one file each, found by `hermes_lab.commands.registry`."""
