"""What `hermes-lab config init` writes."""

TEMPLATE = """\
# The configuration of your chats, of the gateway and of scheduled jobs. Batches (run, experiment) do not read it.
# -c options on the command line come after it. All fields: hermes-lab config docs
# ${NAME} in a value is replaced by that environment variable; $${ means the characters ${.
# Check: hermes-lab config check        What a chat uses: hermes-lab config show --kind home

# The model, and the variable with its key. The key itself does not belong in this file.
#model:
#  name: my-model
#  base_url: http://127.0.0.1:8000/v1
#  api_key_env: OPENAI_API_KEY

# What the agent may use.
#agent:
#  toolsets: [core, web]

# MCP servers, whose tools the agent can call (docs/mcp.md). /reload-mcp reads this section again.
#mcp:
#  servers:
#    files: {command: npx -y @modelcontextprotocol/server-filesystem, args: [/home/ann/notes]}
#    search: {url: "https://mcp.example.com/mcp", headers: {Authorization: "Bearer ${SEARCH_TOKEN}"}}

# Who you are. The agent is told this at the start of each session.
#user:
#  name: Ann
#  timezone: Europe/Berlin
#  preferences:
#    language: English
#    units: metric

# How the agent speaks: none, one of your own, or a built-in one (/personality lists them).
#personalities:
#  pirate: Speak like a pirate, and stay exact.
#personality: concise

# The screen of a chat.
#display:
#  skin: default                           # or mono: no colours
#  verbose: all                            # tool calls shown: off, new, all, verbose
#  background_process_notifications: all   # or result, error, off

# Work in a folder of this machine, whose files stay. Paths are relative to this file.
#sandbox:
#  workspace: work

# What is recorded of chats, and whether it may be exported and trained on.
#chat:
#  record: true
#  consent: false   # true: everyone who writes in these chats agrees

# Chat platforms (hermes-lab gateway run, docs/gateway.md). Nobody may write until you list or pair them.
#gateway:
#  platforms: [telegram, http]
#  home: telegram:dm:123456789   # where messages go that belong to no chat
#  telegram: {allow: ["123456789"]}

# Scheduled jobs (docs/cron.md).
#cron:
#- {name: news, schedule: 0 9 * * mon-fri, prompt: Summarise the news., deliver: telegram}
"""
