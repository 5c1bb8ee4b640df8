"""``marin serve``."""

from __future__ import annotations

import signal

import click

from marin.cli.exits import Exit
from marin.cli.options import PREFIX, existing_store
from marin.cli.parameters import command_line, option
from marin.executor.signals import SIGNALS
from marin.report.table import open_console, say

PORT = 8642


@command_line()
def command(
    port: int = option(
        "--port", "The port on this machine; 0 for any free port.", type=click.IntRange(0, 65535), default=PORT
    ),
    prefix: str = PREFIX,
) -> int:
    """Show the store in a browser: experiments, runs, steps, documents, dropped text, tokens, loss curves.

    The command prints an address that holds a secret, and serves it until Ctrl-C. It answers only this machine and
    writes nothing. From another machine: ssh -L 8642:127.0.0.1:8642 HOST.
    """
    from marin.report.serve.server import Server

    store = existing_store(prefix)
    try:
        server = Server(store, port)
    except OSError as error:
        way_on = "give another --port, or --port 0 for any that is free"
        raise click.UsageError(f"port {port} cannot be had on this machine ({error.strerror}); {way_on}") from error
    console = open_console()
    say(console, f"store {store.prefix}", "dim")
    say(console, server.address, "bold")
    say(console, "open that in a browser on this machine; Ctrl-C ends it", "dim")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say(console, "ended", "dim")
    finally:
        server.server_close()
    return Exit.OK if SIGNALS.number is signal.SIGINT else 128 + SIGNALS.number
