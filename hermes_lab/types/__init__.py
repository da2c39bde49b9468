"""All records that cross module boundaries: frozen, versioned, without behaviour.

Records are `msgspec.Struct`s: decoding a line checks its types, encoding is one call. Records written to disk carry a
version `v`; `hermes_lab.records` upgrades older versions when reading.
"""

from hermes_lab.types.episode import (
    Child,
    Episode,
    EpisodeError,
    Judgement,
    KeptWorkspace,
    ModelIdentity,
    Observation,
    ProgramUse,
    Rescored,
    Review,
    SkillTrace,
    SkillUse,
    TaskInfo,
    Vote,
)
from hermes_lab.types.group import GroupKind, ScoredGroup
from hermes_lab.types.mcp import ServedTools
from hermes_lab.types.memory import MemoryUse, MemoryWrite
from hermes_lab.types.message import Generation, Message, Recorded, ToolCall, ToolResult, Usage
from hermes_lab.types.skill import Skill, SkillEdit, SkillWrite
from hermes_lab.types.task import Reward, Root, Task, Verdict
from hermes_lab.types.trajectory import Compression, Step, TokenBranch, Trajectory
from hermes_lab.types.web import Page

__all__ = [
    "Child",
    "Compression",
    "Episode",
    "EpisodeError",
    "Generation",
    "GroupKind",
    "Judgement",
    "KeptWorkspace",
    "MemoryUse",
    "MemoryWrite",
    "Message",
    "ModelIdentity",
    "Observation",
    "Page",
    "ProgramUse",
    "Recorded",
    "Rescored",
    "Review",
    "Reward",
    "Root",
    "ScoredGroup",
    "ServedTools",
    "Skill",
    "SkillEdit",
    "SkillTrace",
    "SkillUse",
    "SkillWrite",
    "Step",
    "Task",
    "TaskInfo",
    "TokenBranch",
    "ToolCall",
    "ToolResult",
    "Trajectory",
    "Usage",
    "Verdict",
    "Vote",
]
