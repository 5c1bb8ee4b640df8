"""Fetch the files of a dataset or model on the Hugging Face hub at one commit, with retries and checksums.

The hub's client lists the files. marin fetches them over plain HTTP, because the client restarts a partial file in
every process.
"""

# pyright: basic
from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from marin.data.chosen_files import chosen
from marin.data.fetching import Fetched, sha256
from marin.data.kept_files import KeptFile, scratch
from marin.data.resuming import bring
from marin.data.retrying import PASSING, Tries, retry_after
from marin.errors import InputError, MarinError, MissingRevision
from marin.store.files.directory import Directory


@dataclass(frozen=True)
class HubFile:
    """One file on the hub. checksum: "sha256 …" for a large file, "git …" (the git blob id) for a small one."""

    name: str
    bytes: int
    checksum: str

    @property
    def is_large(self) -> bool:
        return self.checksum.startswith("sha256 ")


def list_hub_files(
    repo: str, revision: str, patterns: Sequence[str], excludes: Sequence[str]
) -> tuple[str, list[HubFile]]:
    """Return the commit, and the dataset's matching files by name. revision: the first digits of the commit.

    Raises MissingRevision if the repository or commit does not exist (branches and tags do not count), InputError if
    nothing matches or the hub does not answer.
    """
    import huggingface_hub
    from huggingface_hub.constants import ENDPOINT

    def ask() -> Any:
        return huggingface_hub.HfApi().dataset_info(repo, revision=revision, files_metadata=True)

    info = _patiently(repo, revision, f"{ENDPOINT}/api/datasets/{repo}/revision/{revision}", ask)
    commit, files = _listed(repo, revision, info)
    return commit, [files[name] for name in sorted(chosen(list(files), patterns, excludes, f"{repo}@{commit}"))]


def list_model_files(repo: str, revision: str) -> tuple[dict[str, HubFile], str | None]:
    """Return a model's files by name, and the licence that its card names.

    Raises MissingRevision if the repository or commit does not exist, InputError if the hub does not answer.
    """
    import huggingface_hub
    from huggingface_hub.constants import ENDPOINT

    def ask() -> Any:
        return huggingface_hub.HfApi().model_info(repo, revision=revision, files_metadata=True)

    info = _patiently(repo, revision, f"{ENDPOINT}/api/models/{repo}/revision/{revision}", ask)
    return _listed(repo, revision, info)[1], getattr(info.card_data, "license", None)


def _listed(repo: str, revision: str, info: Any) -> tuple[str, dict[str, HubFile]]:
    commit = str(info.sha or "")
    if not commit.startswith(revision):  # a branch or tag may be named like the beginning of a commit
        raise _no_revision(repo, revision)
    return commit, {
        sibling.rfilename: HubFile(
            sibling.rfilename,
            sibling.size or 0,
            f"sha256 {sibling.lfs.sha256}" if sibling.lfs else f"git {sibling.blob_id}",
        )
        for sibling in info.siblings or []
    }


def fetch_hub_file(repo: str, revision: str, file: HubFile, out: Directory, state: Directory) -> Fetched:
    """Fetch one file of a dataset into ``out``; see keep_hub_file."""
    kept = keep_hub_file(repo, revision, file, state, "dataset")
    return Fetched(file.name, kept.put_into(out), f"{repo}@{revision}/{file.name}", file.checksum)


def keep_hub_file(repo: str, revision: str, file: HubFile, state: Directory, kind: str) -> KeptFile:
    """Fetch one file into the state, resumable and verified. A complete file of an earlier attempt is reused.

    kind: "dataset" or "model".
    """
    import huggingface_hub
    from huggingface_hub.utils import build_hf_headers

    kept = kept_hub_file(repo, revision, file, state)
    origin = f"{repo}@{revision}/{file.name}"
    if not kept.there():
        url = huggingface_hub.hf_hub_url(repo, file.name, repo_type=kind, revision=revision)
        login = build_hf_headers().get("authorization", "")
        with scratch(state) as folder:
            part = folder / f"{kept.key}.part"
            bring(url, part, login=login, pinned=True, refused=lambda url, error: _refused(repo, revision, url, error))
            size, found = part.stat().st_size, sha256(part) if file.is_large else _git_blob(part)
            if (size, found) != (file.bytes, file.checksum.split()[1]):
                part.unlink()
                raise InputError(
                    f"{origin} has {size} bytes, {file.checksum.split()[0]} {found}; wanted {file.bytes}, "
                    f"{file.checksum}. Run again"
                )
            kept.take(part)
    return kept


def kept_hub_file(repo: str, revision: str, file: HubFile, state: Directory) -> KeptFile:
    """Return the place in the state of a complete file, whether or not it has arrived."""
    return KeptFile(state, file.name, repo, revision, file.name, file.checksum)


def fetch_model_file(repo: str, revision: str, name: str, state: Directory) -> bytes:
    """Return one file of a model from the hub client's cache, or else from the hub, with retries.

    Raises MissingRevision if the repository or revision does not exist, InputError if the file cannot be fetched.
    """
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers

    cached = huggingface_hub.try_to_load_from_cache(repo, name, revision=revision)
    if isinstance(cached, str):
        return Path(cached).read_bytes()
    url = huggingface_hub.hf_hub_url(repo, name, revision=revision)
    if constants.HF_HUB_OFFLINE:
        raise InputError(f"{url}: not in {constants.HF_HUB_CACHE}, and HF_HUB_OFFLINE is set; unset that variable")
    login = build_hf_headers().get("authorization", "")
    with scratch(state) as folder:
        part = folder / f"{name}.part"
        bring(url, part, login=login, pinned=False, refused=lambda url, error: _refused(repo, revision, url, error))
        content = part.read_bytes()
        part.unlink()
    return content


def _refused(repo: str, revision: str, url: str, error: HTTPError) -> MarinError:
    code = error.headers.get("X-Error-Code")
    if code == "GatedRepo":
        return _gated(repo)
    if code == "RevisionNotFound":
        return _no_revision(repo, revision)
    if code == "RepoNotFound":
        return _no_repository(repo, revision)
    return InputError(
        f"{url}: the hub answered {error.code} {error.reason}; check the name, and for a private repository run "
        "`hf auth login` or set HF_TOKEN"
    )


def _no_revision(repo: str, revision: str) -> MissingRevision:
    return MissingRevision(
        f"{repo} has no revision {revision}; look up a commit on its page under Files → History and pin it"
    )


def _no_repository(repo: str, revision: str) -> MissingRevision:
    return MissingRevision(
        f"{repo} does not exist on the hub, or this account cannot see it (wanted revision {revision}); check the "
        "name, and for a private repository run `hf auth login`"
    )


def _gated(repo: str) -> InputError:
    return InputError(f"{repo} is gated: accept its terms on its page, then run `hf auth login` or set HF_TOKEN")


def _patiently(repo: str, revision: str, what: str, ask: Callable[[], Any]) -> Any:
    """Return the result of ``ask``, and retry it while the error may pass."""
    import httpx
    from huggingface_hub import errors

    tries = Tries(what)
    while True:
        try:
            return ask()
        except errors.GatedRepoError as error:
            raise _gated(repo) from error
        except errors.RevisionNotFoundError as error:
            raise _no_revision(repo, revision) from error
        except errors.RepositoryNotFoundError as error:
            raise _no_repository(repo, revision) from error
        except errors.OfflineModeIsEnabled as error:
            raise InputError(f"{what}: {_words(error)}; unset HF_HUB_OFFLINE, or run where it is not set") from error
        except (httpx.HTTPError, OSError) as error:
            response = getattr(error, "response", None)
            status, asked, problem = 0, None, _words(error)
            if response is not None:
                status, asked = response.status_code, retry_after(response.headers)
                problem = f"the hub answered {status} {response.reason_phrase}"
                if status not in PASSING:
                    raise InputError(f"{what}: {problem}; check the name and the account (`hf auth whoami`)") from error
            tries.failed(problem, status=status, asked=asked, grown=False, goes_on="ask again")


def _git_blob(path: Path) -> str:
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _words(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
