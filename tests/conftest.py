"""Order of the tests: what starts Ray comes first, because Ray forks and JAX, once imported, warns of every fork."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "test_ray" not in item.path.name)
