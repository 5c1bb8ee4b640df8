"""Object stores on this machine: real HTTP servers with real conditions, that fail when told to.

Each store runs in a process of its own: moto (S3) or gcp-storage-emulator (GCS) behind a front. The front adds the
features that the emulator lacks (see generations.py), serialises changes of one object, and follows rules: delays,
refusals, cut connections, lost answers, stale listings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
import uuid
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.servers.calls import Kind, Operation
from tests.support.servers.rules import Act, Rule

__all__ = ["Act", "Kind", "Operation", "Rule", "StoreServer", "environment_set"]

ROOT = Path(__file__).resolve().parents[3]
BUCKET = "lab"


class StoreServer:
    """A running server. Use as a context; ``environment`` is what clients need to find it."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.servers", kind.value],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        port = self.process.stdout.readline().strip()
        assert port.isdigit(), f"the {kind} server did not start"
        self.url = f"http://127.0.0.1:{port}"
        self._make_bucket()

    @property
    def environment(self) -> dict[str, str]:
        """For gcsfs and s3fs, and for tensorstore, which reads and writes checkpoints."""
        if self.kind is Kind.GS:
            return {
                "STORAGE_EMULATOR_HOST": self.url,
                "TENSORSTORE_GCS_HTTP_URL": self.url,
                "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # else it asks over gRPC and waits for ever
                "GOOGLE_CLOUD_PROJECT": "lab",
                "NO_GCE_CHECK": "true",  # do not look for the metadata server of a cloud machine
                "CLOUDSDK_CONFIG": "/nonexistent",
            }
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def new_prefix(self) -> str:
        """Return an unused prefix for a fresh store."""
        return f"{self.kind.value}://{BUCKET}/{uuid.uuid4().hex[:12]}/store"

    def new_bucket(self, region: str) -> str:
        """Return a prefix for a fresh store, in a new bucket that says it is in this region."""
        bucket = f"lab-{uuid.uuid4().hex[:12]}"
        if self.kind is Kind.S3:
            where = f"<LocationConstraint>{region}</LocationConstraint>" if region != "us-east-1" else ""
            said = f'<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{where}'
            self._ask("PUT", f"/{bucket}", f"{said}</CreateBucketConfiguration>".encode() if where else None)
        else:
            described = {"name": bucket, "location": region.upper()}
            self._ask("POST", "/storage/v1/b?project=lab", json.dumps(described).encode())
        return f"{self.kind.value}://{bucket}/store"

    def obey(self, *rules: Rule) -> None:
        """Follow these rules from now on, in place of the earlier rules; counts restart at zero."""
        self._ask("PUT", "/-/control", json.dumps([rule.to_json() for rule in rules]).encode())

    def calls(self) -> list[tuple[Operation, str, int]]:
        """(operation, object, status) since the last ``obey``; status 0 for a cut connection."""
        return [(Operation(operation), name, status) for operation, name, status in self._control()["seen"]]

    def counts(self, prefix: str) -> Counter[Operation]:
        """Count the calls of one store alone, because late calls of other stores may still arrive."""
        path = prefix.split("/", 3)[3]
        return Counter(operation for operation, name, _ in self.calls() if name.startswith(path))

    def bytes_read(self, prefix: str) -> Counter[str]:
        """Return the number of bytes read from each object of one store, by the last part of the object's name."""
        path, found = prefix.split("/", 3)[3], Counter[str]()
        for name, size in self._control()["served"]:
            if name.startswith(path):
                found[name.rsplit("/", 1)[-1]] += size
        return found

    def most_in_flight(self) -> int:
        """The largest number of calls that were waiting for their answers at one time."""
        return self._control()["most_in_flight"]

    def stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=30)

    def __enter__(self) -> StoreServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _control(self) -> dict[str, Any]:
        return json.loads(self._ask("GET", "/-/control"))

    def _make_bucket(self) -> None:
        if self.kind is Kind.S3:
            self._ask("PUT", f"/{BUCKET}")
            return
        bucket = {"name": BUCKET, "softDeletePolicy": {"retentionDurationSeconds": "0"}}
        self._ask("POST", "/storage/v1/b?project=lab", json.dumps(bucket).encode())

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()


@contextmanager
def environment_set(variables: dict[str, str]) -> Generator[None]:
    """These environment variables, for clients in this process and its children, until the context ends."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, held in before.items():
            if held is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = held
