"""The family `notices` played with the toolset `browser`, by a real Chromium in each sandbox."""

from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.records import read_episodes
from hermes_lab.types import Episode
from hermes_lab.web.browser.installed import missing_browser

pytestmark = pytest.mark.skipif(bool(missing_browser()), reason=missing_browser())


def played(folder: Path, web: str) -> list[Episode]:
    """The episodes of one lane whose learner reads pages with the toolset `web` or `browser`."""
    chosen = {
        "model.options": f"{{browser: {str(web == 'browser').lower()}}}",
        "agent.toolsets": f"[file,{web},skill_view,skill_manage]",
        **{"learning.arms": "[on]", "learning.replicates": 1, "learning.worlds": 1, "learning.rounds": 4},
    }
    settings = [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
    command = ("experiment", "-c", "configs/learner.yaml", "-c", "suite.name=notices", *settings)
    done = lab(*command, "--out", folder / web, "--quiet")
    assert done.returncode in (0, 1), done.stderr  # 1: four tasks measure nothing
    return sorted(read_episodes(folder / web), key=lambda episode: episode.round)


def test_the_browser_reads_what_the_web_tools_read(tmp_path: Path) -> None:
    with_web, with_browser = played(tmp_path, "web"), played(tmp_path, "browser")
    assert len(with_browser) == 4
    accepted = [[verdict.success for verdict in episode.verdicts] for episode in with_browser]
    assert accepted == [[verdict.success for verdict in episode.verdicts] for episode in with_web]
    assert all(episode.verdicts[-1].success for episode in with_browser)
    for episode in with_browser:
        assert episode.trajectory is not None
        called = {call.name for message in episode.trajectory.messages for call in message.tool_calls}
        assert {"browser_navigate", "browser_type", "browser_click"} <= called
        assert not any(name.startswith("web_") for name in called)
