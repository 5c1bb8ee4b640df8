"""``python -m tests.support.servers gs|s3``: an emulator and its front; prints its port, ends with its input."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading

from tests.support.servers.calls import Kind
from tests.support.servers.front import serve


def google_emulator() -> str:
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True)
    # It writes the description of every object it holds on each change (0.3 s with 10,000 objects): for persistence,
    # which a server in memory has no use for.
    server._storage._write_config_to_file = lambda: None
    server.start()
    return "http://{}:{}".format(*server._api._httpd.server_address[:2])


def s3_emulator() -> str:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    return "http://{}:{}".format(*server.get_host_and_port())


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    kind = Kind(sys.argv[1])
    logging.disable(logging.CRITICAL)
    threading.Thread(target=end_with_parent, daemon=True).start()
    upstream = google_emulator() if kind is Kind.GS else s3_emulator()
    asyncio.run(serve(kind, upstream, lambda port: print(port, flush=True)))


main()
