"""No credential reaches the store or the terminal by a field, a message, a command line, a log or a source."""

import os
from pathlib import Path

import pytest

from marin.errors import BadPrefix, UnencodableValue
from marin.store import redaction
from marin.store.redaction import redacted
from marin.store.store import Store
from operators.download import FsspecFiles
from tests.support.project import MARIN, Project
from tests.support.toy import Write

PASSWORD, SIGNED, IN_SOURCE, BY_NAME = "pa55-w0rd", "s1gn3d-4-y0u", "hf_" + "Q" * 34, "as-nobody-guesses"
SECRETS = (PASSWORD, SIGNED, IN_SOURCE, BY_NAME)
URL = f"https://ada:{PASSWORD}@example.org/data.parquet?version=3&X-Amz-Signature={SIGNED}"
EXPERIMENT = f'''
"""Who says what he must not?"""
import os, subprocess, sys
from pathlib import Path
from marin import Context, ExecutorStep, execution
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob

TOKEN = "{IN_SOURCE}"


class Read(ExecutorStep[Blob], op="read"):
    text: str
    url: str = execution(default="")

    def outside(self):
        return {{self.url: "1 byte"}}

    def run(self, ctx: Context) -> Blob:
        print("reading", self.url, TOKEN, os.environ["LAB_API_KEY"])
        subprocess.run(["echo", "a child reads", self.url], check=True)
        ctx.log(f"reading {{self.url}} as {{TOKEN}}")
        ctx.progress(1, 2, "files", note=self.url)
        if self.text == "fails":
            raise ValueError(f"cannot read {{self.url}} with {{os.environ['LAB_API_KEY']}}")
        ctx.out.write_text("text.txt", self.text)
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    note = "from " + "{URL}"
    works, fails = (Read(text=text, url="{URL}", label=text.split()[0]) for text in ("works " + note, "fails"))
    return Experiment(issue=1, question=__doc__, results={{"works": works, "fails": fails}})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", EXPERIMENT)


def leaked(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def in_store(project: Project) -> dict[str, list[str]]:
    """Return the secrets in all files that the store keeps for itself, whatever their names."""
    found = {str(path): leaked(path.read_text(errors="replace")) for path in project.store.rglob("*") if path.is_file()}
    return {path: secrets for path, secrets in found.items() if secrets and not path.endswith("text.txt")}


def run(project: Project, backend: str, *arguments: str) -> str:
    command = project.command("--because", f"asked by {URL}", *arguments, backend=backend)
    ended = project.started(command, environment={"LAB_API_KEY": BY_NAME}, fork=backend == "inline")
    assert ended.code == 1, ended.said  # one step fails
    return ended.said


def asked(project: Project, *arguments: str) -> str:
    command = [MARIN, *arguments, "--prefix", str(project.store)]
    ended = project.started(command, environment={"LAB_API_KEY": BY_NAME})
    assert ended.code in (0, 3), ended.said
    return ended.said


@pytest.mark.parametrize("backend", ["inline", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_run_that_says_it_everywhere_leaves_it_nowhere(project: Project, backend: str) -> None:
    said = run(project, backend)
    assert "cannot read https://***@example.org/data.parquet?version=3&X-Amz-Signature=***" in said
    assert not leaked(said)
    project.file.write_text(project.file.read_text().replace('print("reading",', 'print("reading it",'))
    said = run(project, "inline", "--on-drift", "rebuild")
    assert not leaked(said)
    assert in_store(project) == {}
    file = str(project.file)
    for arguments in (
        ["status"],
        ["status", file],
        ["logs", "read/fails"],
        ["status", "latest", "--json"],
        ["ls", "--json"],
        ["lineage", "works"],
        ["plan", file, "--json"],
        ["plan", file, "works"],
        ["audit", file],
    ):
        said = asked(project, *arguments)
        assert not leaked(said), (arguments, leaked(said))
    assert "***" in asked(project, "logs", "read/fails")


def test_drift_that_is_accepted_with_it_and_bytes_that_are_revoked_for_it(project: Project) -> None:
    run(project, "inline")
    project.file.write_text(project.file.read_text().replace('print("reading",', 'print("reading it",'))
    assert not leaked(asked(project, "accept", str(project.file), "works", "--because", f"see {URL}"))
    assert not leaked(asked(project, "revoke", "works", "--because", f"see {URL}"))
    assert not leaked(asked(project, "revoke", "works", "--withdraw", "--because", f"see {URL}"))
    assert in_store(project) == {}


def test_what_a_hundred_outside_files_are_called_is_kept_without_it(tmp_path: Path) -> None:
    many = EXPERIMENT.replace(
        'return {self.url: "1 byte"}', 'return {f"{self.url}&n={n}": "1 byte" for n in range(99)}'
    )
    project = Project(tmp_path / "project", many)
    run(project, "inline")
    assert in_store(project) == {}
    (kept,) = (project.store / ".marin/outside").iterdir()
    assert kept.read_text().count("https://***@example.org") == 99
    assert asked(project, "plan", str(project.file)).count("cached") >= 1  # the credential does not matter


def test_an_identity_holds_no_credential() -> None:
    """A digest would let somebody guess a short password, and a token would give the same data another identity."""
    for url in (URL, "s3://ada:pa55-w0rd@bucket/x", f"https://example.org/x?token={SIGNED}"):
        with pytest.raises(UnencodableValue, match=r"FsspecFiles\.urls\[0\].*\*\*\*.*netrc") as raised:
            FsspecFiles(urls=(url,))
        assert not leaked(str(raised.value))
    with pytest.raises(UnencodableValue, match=r"Write\.label"):
        Write(text="x", label=f"https://ada:{PASSWORD}@example.org")
    with pytest.raises(UnencodableValue, match=r"Write\.label"):
        Write(text="x", label=f"postgresql+asyncpg://ada:{PASSWORD}@example.org")
    Write(text=f"a text that mentions {URL} is no address")
    FsspecFiles(urls=("https://example.org/x?version=3&tokenizer=llama&keys=4", "s3://bucket/a@b:c/x"))


def test_a_store_is_not_called_by_a_credential() -> None:
    with pytest.raises(BadPrefix, match=r"s3://\*\*\*@bucket/store") as raised:
        Store(f"s3://AKIDEXAMPLE:{PASSWORD}@bucket/store")
    assert not leaked(str(raised.value))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("git clone https://ghp_x:y@github.com/a/b", "git clone https://***@github.com/a/b"),
        (f"https://{'t' * 40}@github.com/a/b", "https://***@github.com/a/b"),
        ("ssh://git@github.com/a/b and ada@lab", "ssh://git@github.com/a/b and ada@lab"),
        ("'https://h/a?access_token=abcdefgh'", "'https://h/a?access_token=***'"),
        ("https://h/a?x=1&amp;sig=abcdefgh&amp;y=2", "https://h/a?x=1&amp;sig=***&amp;y=2"),
        ("postgresql+asyncpg://ada:pa55@h/a", "postgresql+asyncpg://***@h/a"),
        ("(see s3://k:p@h/a,http://h/b)", "(see s3://***@h/a,http://h/b)"),
        ("https://h/a#id_token=abcdefgh", "https://h/a#id_token=***"),
        ("https://h/?X-Goog-Signature=ab%2Fcd0123&X-Goog-Date=1", "https://h/?X-Goog-Signature=***&X-Goog-Date=1"),
        ("https://h/?max_tokens=4096&tokenizer=llama-3-tokenizer", None),
        ("Authorization: Bearer abc.DEF-123_456", "Authorization: Bearer ***"),
        ("Authorization: Basic YWRhOnBhNTU=", "Authorization: Basic ***"),
        ("a bearer of bad news, the Bearer said", None),
        ("token 1 on ada@lab (process 7), 3 tokens", None),
        ("AKIA" + "ABCDEFGH12345678 is one", "*** is one"),
        ("ghp_" + "a" * 36, "***"),
        ("github_pat_" + "a" * 40, "***"),
        ("hf_hub_download and hf_transfer", None),
        ("sk-ant-api03-" + "a1B2" * 10, "***"),
        ("disk-space-and-a-task-name-that-is-rather-long-indeed", None),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest", "***\nrest"),
        ("login --password s3cr3t-one --n 3", "login --password *** --n 3"),
        ("----- --hf-token=abcdefgh ----token=b1", "----- --hf-token=*** ----token=***"),
        ("login --hf-token=abcdefgh", "login --hf-token=***"),
        ("HF_TOKEN=abcdefgh python x.py", "HF_TOKEN=*** python x.py"),
        ("fb3cbbd16a3c7a5a2a4f7fd4e1d9a0a1b2c3d4e5f60718293a4b5c6d7e8f9012", None),
    ],
)
def test_what_is_taken_for_a_credential(text: str, clean: str | None) -> None:
    assert redacted(text) == (text if clean is None else clean)
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize("word", ["a1" * 120_000, "-" * 20_000])
@pytest.mark.timeout(20)
def test_a_long_word_takes_no_time_by_its_square(word: str) -> None:
    assert redacted(f"{word} token {URL}") == f"{word} token {redacted(URL)}"


def redacted_now(text: str) -> str:
    redaction._secrets.cache_clear()
    return redacted(text)


def test_values_of_variables_whose_names_say_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "RAY_AUTH_TOKEN", "MY_PASSWORD", "AWS_SECRET_ACCESS_KEY"):
        with monkeypatch.context() as patched:
            patched.setenv(name, "unguessable")
            assert redacted_now("so unguessable!") == "so ***!"
    for name, held in (("TOKENIZERS_PARALLELISM", "unguessable"), ("SHORT_TOKEN", "seven77"), ("KEYS", "unguessable")):
        with monkeypatch.context() as patched:
            patched.setenv(name, held)
            assert redacted_now(f"so {held}!") == f"so {held}!"
    with monkeypatch.context() as patched:
        patched.setenv("GOOGLE_TOKEN_FILE", "/home/ada/token.json")
        patched.setenv("LAB_TOKEN", os.devnull + "/nothing")  # a path is no secret
        assert redacted_now("see /home/ada/token.json") == "see /home/ada/token.json"
