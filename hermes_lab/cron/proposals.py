"""The jobs that the agent proposes in a chat."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hermes_lab.cron.jobs import JobStore, definition_of
from hermes_lab.sessions.keys import SessionKey


class JobProposals:
    """See `Proposals`. `zone` is that of the jobs, `key` the chat to which their results go."""

    def __init__(self, home: Path, zone: str, key: SessionKey) -> None:
        self._store = JobStore(home, zone)
        self._key = key

    def propose(self, name: str, schedule: str, prompt: str, skills: Sequence[str], repeat: int | None) -> str:
        """See `Proposals`."""
        fields = {"name": name, "schedule": schedule, "prompt": prompt, "skills": skills, "repeat": repeat}
        definition = definition_of(**fields, deliver="origin")
        job = self._store.add(definition, datetime.now(UTC), source="agent", origin=str(self._key), state="proposed")
        assert job.next is not None
        return job.next.astimezone(job.schedule.zone).isoformat()

    def proposed(self) -> list[dict[str, Any]]:
        """See `Proposals`."""
        return [
            {"name": job.name, "schedule": job.definition.schedule, "zone": job.definition.zone, "state": job.state}
            for job in self._store.all()
        ]

    def withdraw(self, name: str) -> None:
        """See `Proposals`."""
        self._store.remove(name, only="agent")
