"""Checkpoints in S3-compatible stores that do not give every bucket a host of its own (MinIO, Ceph, a test's server).

Levanter tells TensorStore to look for a bucket at ``bucket.host`` of ``AWS_ENDPOINT_URL``. If this host does not
exist, TensorStore retries for many minutes, and training seems to hang at its first checkpoint. In that case marin
puts the bucket into the path, as the store's other clients do.
"""

# pyright: basic
from __future__ import annotations

import functools
import os
import socket
import urllib.parse
from typing import Any


def find_buckets() -> None:
    """Make Levanter find buckets by host or by path, from now on. Raises nothing; one call is enough."""
    from levanter import tensorstore_serialization as levanter

    if not isinstance(levanter.build_kvstore_spec, _Found):
        levanter.build_kvstore_spec = _Found(levanter.build_kvstore_spec)


class _Found:
    def __init__(self, built: Any) -> None:
        self.built = built

    def __call__(self, path: str) -> dict[str, Any]:
        spec = self.built(path)
        endpoint = os.environ.get("AWS_ENDPOINT_URL")
        if spec["driver"] != "s3" or not endpoint or "bucket" in spec:
            return spec
        bucket = urllib.parse.urlparse(path).netloc
        if _is_host(urllib.parse.urlparse(spec["endpoint"]).hostname or ""):
            return spec
        return {**spec, "endpoint": endpoint.rstrip("/"), "bucket": bucket}


@functools.cache
def _is_host(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True
