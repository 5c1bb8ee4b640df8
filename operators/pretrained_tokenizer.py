"""PretrainedTokenizer, FolderTokenizer: use the tokenizer of a published model at a pinned revision, or your own."""

from __future__ import annotations

import re

from marin import Context, ExecutorStep, Tokenizer, execution, formerly, since
from marin.errors import BadField, InputError
from operators.text_files import must_be_absolute


class PretrainedTokenizer(ExecutorStep[Tokenizer], op="pretrained-tokenizer"):
    """tokenizer.json and tokenizer_config.json of a Hugging Face repository.

    repo: "owner/name". revision: a commit, 40 hex digits; a branch can move, so marin refuses it.
    vocabulary: the most entries that the tokenizer has; marin then refuses a training with fewer before it downloads
    anything. eos: another token to end documents. Tokenizers of chat models name the end of a turn, which a chat holds
    many times. With ``eos="<|endoftext|>"`` Qwen's chats stay whole.
    """

    repo: str = formerly("repository")
    revision: str
    vocabulary: int | None = execution(default=None)
    eos: str = since(2, default="")

    def check(self) -> None:
        must_be_commit("PretrainedTokenizer", self.repo, self.revision)

    def run(self, ctx: Context) -> Tokenizer:
        from marin.data.tokenizer import download_tokenizer

        loaded = download_tokenizer(ctx.out, ctx.state, self.repo, self.revision, self.eos)
        return _as_declared(self, self.vocabulary, Tokenizer(vocabulary=loaded.vocabulary, digest=loaded.digest))


class FolderTokenizer(ExecutorStep[Tokenizer], op="folder-tokenizer", version=1):
    """The tokenizer of a folder: tokenizer.json and tokenizer_config.json, or a tokenizer.json alone.

    path: the folder, as ``save_pretrained`` of transformers writes it, or its ``tokenizer.json``; absolute or a URL.
    The step copies the files; a file that changes later shows as drift. vocabulary: as for PretrainedTokenizer. eos:
    the token that ends a document, only for a tokenizer.json alone. Without eos, the step takes the token of
    marin.data.tokenizer.ENDS that the file has.
    Raises InputError if a file is missing, or if nothing says which token ends a document; GarbledDocument if the
    files are no tokenizer with an eos token.
    """

    path: str
    vocabulary: int | None = execution(default=None)
    eos: str = since(2, default="")

    def check(self) -> None:
        beside = "str(Path(__file__).parent / ...) is beside the experiment"
        must_be_absolute("FolderTokenizer.path", self.path, beside)
        if self.eos and not self._alone:
            raise BadField(
                f"FolderTokenizer.eos is {self.eos!r}, but {self.path} is a folder, whose tokenizer_config.json names "
                "eos; give the path of tokenizer.json itself, or leave eos out"
            )

    def outside(self) -> dict[str, str]:
        from marin.data.outside_files import outside_files

        return outside_files(*self._urls())

    def run(self, ctx: Context) -> Tokenizer:
        from marin.data.outside_files import copy_file, list_files
        from marin.data.tokenizer import load_tokenizer, write_config

        for file in list_files(self._urls()):
            copy_file(file, ctx.out, ctx.state)
        if self._alone:
            ctx.log(f"{write_config(ctx.out, self.eos)} ends a document")
        loaded = load_tokenizer(ctx.out)
        return _as_declared(self, self.vocabulary, Tokenizer(vocabulary=loaded.vocabulary, digest=loaded.digest))

    @property
    def _alone(self) -> bool:
        return self.path.endswith("/tokenizer.json")

    def _urls(self) -> tuple[str, ...]:
        if self._alone:
            return (self.path,)
        return tuple(f"{self.path.rstrip('/')}/{name}" for name in ("tokenizer.json", "tokenizer_config.json"))


def must_be_commit(step: str, repo: str, revision: str) -> None:
    """Check that repo and revision name one commit of a repository. Raises BadField."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise BadField(f"{step}.repo is {repo!r}, wanted 'owner/name'")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise BadField(
            f"{step}.revision is {revision!r}, wanted a commit of 40 hex digits: a branch or tag can move under the "
            "experiment"
        )


def _as_declared(step: ExecutorStep[Tokenizer], most: int | None, made: Tokenizer) -> Tokenizer:
    """Return the tokenizer. Raises InputError if it has more entries than the step declares to trainings."""
    if most is not None and made.vocabulary > most:
        raise InputError(
            f"{step.name}: the tokenizer has {made.vocabulary:,} entries, vocabulary says {most:,}; correct vocabulary"
        )
    return made
