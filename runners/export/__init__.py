"""Export formats, one per module, and their registry.

A format is a function of a `Source`. It counts the episodes that it leaves out by reason, and never invents data that
was not recorded.
"""

from typing import Literal

from hermes_lab.runners.export import atif, groups, hermes, hf, openai, preference, sft, tasks
from hermes_lab.runners.export.format import Folder, Lines

Name = Literal["hermes", "openai", "atif", "hf", "sft", "preference", "groups", "tasks"]

FORMATS: dict[Name, Lines | Folder] = {
    "hermes": Lines("Hermes/ShareGPT conversations", hermes.rows),
    "openai": Lines("OpenAI messages with tools, as the model saw and wrote them", openai.rows),
    "atif": Folder("Harbor's trajectories (ATIF v1.8), one file per episode", atif.write),
    "hf": Folder("a Hugging Face dataset: Parquet and a dataset card", hf.write),
    "sft": Lines("conversations selected for fine-tuning", sft.rows),
    "preference": Lines("chosen and rejected samples of a task, for TRL", preference.rows),
    "groups": Lines("scored groups with token ids", groups.rows),
    "tasks": Lines("judged turns of chats as tasks of a JSONL suite, to run them again", tasks.rows),
}
