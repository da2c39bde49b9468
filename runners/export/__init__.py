"""What a run's episodes are written as for others to read: a format a file, and the registry that names them.

A format is a function over a `Source`. It names why it leaves an episode out, and never invents what was not recorded.
"""

from typing import Literal

from hermes_lab.runners.export import atif, groups, hermes, hf, openai, preference, sft
from hermes_lab.runners.export.format import Folder, Lines

Name = Literal["hermes", "openai", "atif", "hf", "sft", "preference", "groups"]

FORMATS: dict[Name, Lines | Folder] = {
    "hermes": Lines("Hermes/ShareGPT conversations", hermes.rows),
    "openai": Lines("OpenAI messages with tools, as the model saw and wrote them", openai.rows),
    "atif": Folder("Harbor's trajectories (ATIF v1.8), a file an episode", atif.write),
    "hf": Folder("a Hugging Face dataset: Parquet and its card", hf.write),
    "sft": Lines("conversations selected for fine-tuning", sft.rows),
    "preference": Lines("chosen and rejected samples of a task, for TRL", preference.rows),
    "groups": Lines("scored groups with token ids", groups.rows),
}
