"""Order of the tests: what starts Ray comes first, because Ray forks and JAX, once imported, warns of every fork."""

import os
import signal

import pytest

# Started in the background or by nohup, the tests would be deaf to these, and so would what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """What tests start keeps no bytecode: they edit files again within a second, which Python does not notice."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "test_ray" not in item.path.name)
