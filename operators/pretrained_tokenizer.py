"""PretrainedTokenizer, FolderTokenizer: the tokenizer of a published model at a pinned revision, or one of your own."""

from __future__ import annotations

import re

from marin import Context, ExecutorStep, Tokenizer, execution, formerly, since
from marin.errors import BadField, InputError
from operators.text_files import must_be_absolute


class PretrainedTokenizer(ExecutorStep[Tokenizer], op="pretrained-tokenizer"):
    """tokenizer.json and tokenizer_config.json of a Hugging Face repository.

    repo: "owner/name". revision: a commit, 40 hex digits; branches move and are refused.
    vocabulary: the most entries that it has, so that a training with fewer is refused before anything is downloaded.
    eos: another token that ends documents. Tokenizers of chat models name the end of a turn, which a chat holds many
    times: with ``eos="<|endoftext|>"`` Qwen's chats stay whole.
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
    """tokenizer.json and tokenizer_config.json of a folder, as ``save_pretrained`` of transformers writes them, or a
    tokenizer.json alone.

    path: of the folder, or of its ``tokenizer.json``, absolute or a URL. The files are copied; one that is changed
    later is drift. vocabulary: as above. eos: the token that ends a document, where the file comes alone; without it
    the one of marin.data.tokenizer.ENDS that the file has.
    Raises InputError if a file is missing, or if nobody says which token ends a document; GarbledDocument if they are
    no tokenizer with an eos token.
    """

    path: str
    vocabulary: int | None = execution(default=None)
    eos: str = since(2, default="")

    def check(self) -> None:
        beside = "str(Path(__file__).parent / ...) is beside the experiment"
        must_be_absolute("FolderTokenizer.path", self.path, beside)
        if self.eos and not self._alone:
            raise BadField(
                f"FolderTokenizer.eos is {self.eos!r}, but {self.path} is a folder, whose tokenizer_config.json says "
                "it; give the path of tokenizer.json itself, or leave eos out"
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
    """Raises BadField unless the two name one commit of a repository."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise BadField(f"{step}.repo is {repo!r}, wanted 'owner/name'")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise BadField(
            f"{step}.revision is {revision!r}, wanted a commit of 40 hex digits: a branch or tag can move under the "
            "experiment"
        )


def _as_declared(step: ExecutorStep[Tokenizer], most: int | None, made: Tokenizer) -> Tokenizer:
    """Raises InputError for more entries than trainings were told of."""
    if most is not None and made.vocabulary > most:
        raise InputError(f"{step.name}: it has {made.vocabulary:,} entries, vocabulary says {most:,}; correct that")
    return made
