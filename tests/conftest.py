"""Order of the tests: what starts Ray comes first, because Ray forks and JAX, once imported, warns of every fork."""

import signal

import pytest

# A shell that starts the tests in the background makes them deaf to SIGINT, and what they start with them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "test_ray" not in item.path.name)
