"""Test `marin serve`: its start and end, the clients that it answers, and the headers that restrict every answer."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from marin.cli.exits import Exit
from tests.report.serve.browsing import Browser, served
from tests.support.toy import Write, run

MARIN = Path(sys.executable).with_name("marin")
SECRET = "the text that only readers of the store may see"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    prefix = str(tmp_path_factory.mktemp("served") / "store")
    run(prefix, end=Write(text=SECRET, label="a"))
    with served(prefix) as browser:
        yield browser


@pytest.mark.parametrize("target", ["/", "/outputs", "/wrong/outputs", "//outputs", "/%00/", "/%ff/", "*", "x"])
def test_without_the_secret_nothing_is_told(browser: Browser, target: str) -> None:
    reply = browser.ask(target)
    assert reply.status in (400, 403)
    assert "toy-write" not in reply.text


def test_a_part_of_the_secret_is_not_the_secret(browser: Browser) -> None:
    secret = browser.base.strip("/")
    assert len(secret) > 40
    for wrong in (secret[:-1], secret + "a", secret.swapcase(), "%20" + secret):
        assert browser.ask(f"/{wrong}/").status == 403
    assert browser.ask(f"/{secret}/").status == browser.ask(f"/{secret}").status == 200


@pytest.mark.parametrize(
    "hosts",
    [("evil.example",), ("evil.example:80",), ("127.0.0.1.evil.example",), (), ("localhost", "evil.example"), ("",)],
)
def test_a_name_that_was_made_to_lead_here_is_not_answered(browser: Browser, hosts: tuple[str, ...]) -> None:
    reply = browser.ask(browser.base, hosts=hosts)
    assert reply.status in (400, 421)
    assert "toy-write" not in reply.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:8642", "[::1]:8642"])
def test_a_tunnel_may_have_another_port(browser: Browser, host: str) -> None:
    assert browser.ask(browser.base, hosts=(host,)).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X"])
def test_everything_is_for_reading(browser: Browser, method: str) -> None:
    reply = browser.ask(browser.base, method)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")


def test_head_tells_what_get_would_without_a_body(browser: Browser) -> None:
    for path in ("outputs", "style.css", "nothing"):
        asked, got = browser.ask(browser.base + path, "HEAD"), browser.ask(browser.base + path)
        assert asked.text == ""
        assert (asked.status, asked.headers["Content-Length"]) == (got.status, got.headers["Content-Length"])


def test_no_answer_lets_the_browser_run_fetch_keep_frame_or_tell_anything(browser: Browser) -> None:
    replies = [browser.ask(browser.base + path) for path in ("", "outputs", "curves", "style.css", "nothing")]
    replies += [browser.ask("/"), browser.ask(browser.base, "POST"), browser.ask(browser.base, hosts=("evil.example",))]
    for reply in replies:
        policy = reply.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; base-uri 'none'; frame-ancestors 'none'")
        assert "script-src" not in policy
        assert "unsafe-inline" not in policy.replace("style-src-attr 'unsafe-inline'", "")
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "Python" not in reply.headers["Server"]


def test_it_listens_on_loopback_alone(browser: Browser) -> None:
    port = int(browser.address.split(":")[2].split("/")[0])
    addresses = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        with socket.socket() as outside:
            outside.settimeout(5)
            if address.startswith("127."):
                continue
            assert outside.connect_ex((address, port)) != 0


def test_the_command_prints_its_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    run(prefix, end=Write(text=SECRET, label="a"))
    command = [str(MARIN), "serve", "--prefix", prefix, "--port"]
    with subprocess.Popen([*command, "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"store {prefix}\n"
        address = process.stdout.readline().strip()
        assert "toy-write/a" in Browser(address).get("outputs").text
        port = address.split(":")[2].split("/")[0]
        second = subprocess.run([*command, port], capture_output=True, text=True, check=False)
        assert second.returncode == Exit.USAGE
        assert f"port {port} cannot be had on this machine (Address already in use)" in second.stderr
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (Exit.OK, "")
    assert rest.endswith("ended\n")
    secret = address.split("/")[3]
    assert not any(secret.encode() in path.read_bytes() for path in Path(prefix).rglob("*") if path.is_file())
