"""The output of a process reaches the log of its attempt while it works, and no other attempt's log."""

import os
from pathlib import Path

from marin.executor.log_capture import captured
from marin.store.store import Store
from tests.support.waiting import wait_until


def test_lines_are_in_the_log_while_the_attempt_works_and_in_no_other(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    logs = [f"toy/{number}/log" for number in range(6)]
    for log in logs:
        with captured(store, log):
            os.write(1, f"{log} begins\n".encode())
            wait_until(lambda log=log: b"begins" in store.objects.read_log(log))
            seen = store.objects.read_log(log)
            os.write(1, f"{log} ends".encode())
        assert seen == f"{log} begins\n".encode()
    for log in logs:
        assert store.objects.read_log(log) == f"{log} begins\n{log} ends".encode()
