"""Bytes from outside over HTTP and from the Hugging Face hub: resumed where they stopped, checked when here."""

# pyright: basic
from __future__ import annotations

import gzip
import hashlib
import http.client
import netrc
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import xxhash

from marin.data.http_file import HttpFile
from marin.errors import InputError
from marin.store.files.directory import Directory

CHUNK = 1 << 20
ATTEMPTS = 5
# Attempts that bring no byte are spaced by this many seconds, doubled each time.
FIRST_WAIT = 0.2
TIMEOUT = 60


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a relative path matches any glob; ``*`` stays within a folder, ``**`` crosses folders."""
    return any(re.fullmatch(_glob(pattern), name) for pattern in patterns)


def _glob(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meaning.get(part, re.escape(part)) for part in parts)


def fetch_http(file: HttpFile, out: Directory, state: Directory) -> int:
    """Fetch one file into ``out``; what an earlier attempt left in ``state`` is continued. Returns its bytes.

    Raises InputError naming the URL: unreachable, refused, or of another checksum than the pinned one.
    """
    with _scratch(state) as folder:
        part = folder / f"{xxhash.xxh3_64_hexdigest(file.url.encode())}.part"
        _continue(file.url, part)
        found = _sha256(part)
        if file.sha256 and found != file.sha256:
            part.unlink()
            raise InputError(
                f"{file.url}: sha256 is {found}, wanted {file.sha256}; the file changed at its source or was "
                "damaged on the way. Run again; if it stays so, check the publisher and pin the new checksum"
            )
        size = part.stat().st_size
        _deliver(part, out, file.path)
        return size


def read_index(index: HttpFile, out: Directory, state: Directory) -> list[str]:
    """The lines of a pinned listing of paths (plain or gzip); it is kept in ``out`` under its own name."""
    fetch_http(index, out, state)
    content = out.read_bytes(index.path)
    try:
        text = (gzip.decompress(content) if index.path.endswith(".gz") else content).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{index.url}: not a list of paths ({error}); check the URL") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _continue(url: str, part: Path) -> None:
    """Bring ``part`` to its full length, asking only for the bytes that are missing."""
    idle = 0
    while True:
        have = part.stat().st_size if part.exists() else 0
        try:
            if _receive(url, part, have):
                return
            problem = "the connection closed early"
        except urllib.error.HTTPError as error:
            if error.code == 416 and have:  # nothing after what we have, or the file shrank
                part.unlink()
            elif error.code < 500 and error.code != 429:
                raise InputError(
                    f"{url}: the server answered {error.code} {error.reason}; check the URL, or log in if it asks"
                ) from error
            problem = f"the server answered {error.code}"
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            problem = str(getattr(error, "reason", error)) or type(error).__name__
        grown = (part.stat().st_size if part.exists() else 0) > have
        idle = 0 if grown else idle + 1
        if idle == ATTEMPTS:
            raise InputError(
                f"{url}: {problem}, {ATTEMPTS} times without a new byte; run again to go on from byte {have}"
            )
        if idle:
            time.sleep(FIRST_WAIT * 2 ** (idle - 1))


def _receive(url: str, part: Path, have: int) -> bool:
    """One request; True when everything announced has arrived."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    if login := _login(url):
        request.add_unredirected_header("Authorization", login)  # for this server, not for where it sends us
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if have and response.status != 206:  # the server starts over
            have = 0
        announced = response.headers.get("Content-Length")
        total = have + int(announced) if announced is not None else None
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab" if have else "wb") as handle:
            shutil.copyfileobj(response, handle, CHUNK)
            size = handle.tell()
    return total is None or size == total


def _login(url: str) -> str:
    """From ~/.netrc, because no field of a step may hold it; "" where that says nothing of the server."""
    try:
        found = netrc.netrc().authenticators(urllib.parse.urlsplit(url).hostname or "")
    except FileNotFoundError:
        return ""
    except netrc.NetrcParseError as error:
        raise InputError(f"~/.netrc cannot be read: {error}") from error
    return f"Basic {b64encode(f'{found[0]}:{found[2]}'.encode()).decode()}" if found else ""


def fetch_hub_file(
    repo: str, revision: str, name: str, size: int, checksum: str, out: Directory, state: Directory
) -> int:
    """Fetch one file of a Hugging Face dataset, resumable and verified. Returns its bytes.

    checksum: "sha256:…" of a large file or "git:…", the git blob id of a small one.
    """
    import huggingface_hub
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

    with _scratch(state) as folder:
        try:
            got = Path(
                huggingface_hub.hf_hub_download(
                    repo, name, repo_type="dataset", revision=revision, local_dir=folder / revision
                )
            )
        except GatedRepoError as error:
            raise _gated(repo) from error
        except (HfHubHTTPError, OSError) as error:
            raise InputError(
                f"{repo}@{revision}: {name} could not be fetched: {_first_line(error)}; run again to continue"
            ) from error
        found = f"sha256:{_sha256(got)}" if checksum.startswith("sha256:") else f"git:{_git_blob(got)}"
        if got.stat().st_size != size or found != checksum:
            bytes_found = got.stat().st_size
            got.unlink()
            raise InputError(
                f"{repo}@{revision}: {name} has {bytes_found} bytes, {found}; wanted {size}, {checksum}; run again"
            )
        _deliver(got, out, name)
        return size


def list_hub_files(repo: str, revision: str, patterns: Sequence[str]) -> list[tuple[str, int, str]]:
    """(name, bytes, checksum) of the dataset's files that match, by name.

    Raises MissingRevision if repository or revision do not exist, InputError if nothing matches.
    """
    import huggingface_hub
    from huggingface_hub import errors

    from marin.errors import MissingRevision

    try:
        info = huggingface_hub.HfApi().dataset_info(repo, revision=revision, files_metadata=True)
    except errors.GatedRepoError as error:
        raise _gated(repo) from error
    except errors.RevisionNotFoundError as error:
        raise MissingRevision(
            f"{repo} has no revision {revision}; look up a commit on its page under Files → History and pin that"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise MissingRevision(
            f"{repo} does not exist on the hub, or not for this account (wanted revision {revision}); check the name, "
            "and for a private one run `hf auth login`"
        ) from error
    except (errors.HfHubHTTPError, OSError) as error:
        raise InputError(f"{repo}@{revision}: the hub could not be asked: {_first_line(error)}; run again") from error
    names = [sibling.rfilename for sibling in info.siblings or []]
    found = [
        (
            sibling.rfilename,
            sibling.size or 0,
            f"sha256:{sibling.lfs.sha256}" if sibling.lfs else f"git:{sibling.blob_id}",
        )
        for sibling in info.siblings or []
        if matches(sibling.rfilename, patterns)
    ]
    if not found:
        raise InputError(f"{repo}@{revision}: no file matches {', '.join(patterns)}; it holds {_some(names)}")
    return sorted(found)


@contextmanager
def _scratch(state: Directory) -> Iterator[Path]:
    """A local folder for partial files: the step's state if that is local, else one that does not outlive the call."""
    if state.is_local:
        state.path.mkdir(parents=True, exist_ok=True)
        yield state.path
    else:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def _deliver(source: Path, out: Directory, name: str) -> None:
    if out.is_local:
        target = out.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)
    else:
        with source.open("rb") as handle, out.open(name, "wb") as sink:
            shutil.copyfileobj(handle, sink, CHUNK)
        source.unlink()


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _git_blob(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _gated(repo: str) -> InputError:
    return InputError(f"{repo} is gated: accept its terms on its page, then run `hf auth login` or set HF_TOKEN")


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" … ({len(names)} files)" if len(names) > 5 else "") or "nothing"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
