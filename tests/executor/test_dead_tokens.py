"""What a killed driver leaves of its Ray on this machine is removed by the next run."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.project import gated, wait_for

pytestmark = pytest.mark.slow


def test_the_token_of_a_driver_that_was_killed_is_removed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("HOME", str(temporary))
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    project, gate = gated(tmp_path)
    command, environment = project.command(backend="ray"), project.environment()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        wait_for(Path(f"{gate}.started"), 240)
        (token,) = temporary.glob("marin-ray-token-*/token")
        driver.send_signal(signal.SIGKILL)
    assert token.exists()
    foreign = Path(tempfile.mkdtemp(prefix="marin-ray-token-", dir=temporary))  # nobody knows whose it is
    gate.touch()
    project.run(backend="ray")
    assert not token.parent.exists()
    assert list(temporary.glob("marin-ray-token-*")) == [foreign]
