"""PretrainedTokenizer: the tokenizer of a published model, at a pinned revision."""

from __future__ import annotations

import re

from marin import Context, ExecutorStep, Tokenizer
from marin.errors import BadField


class PretrainedTokenizer(ExecutorStep[Tokenizer], op="pretrained-tokenizer"):
    """tokenizer.json and tokenizer_config.json of a Hugging Face repository.

    repository: "owner/name". revision: a commit, 40 hex digits; branches move and are refused.
    """

    repository: str
    revision: str

    def check(self) -> None:
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", self.repository):
            raise BadField(f"PretrainedTokenizer.repository is {self.repository!r}, wanted 'owner/name'")
        if not re.fullmatch(r"[0-9a-f]{40}", self.revision):
            raise BadField(
                f"PretrainedTokenizer.revision is {self.revision!r}, wanted a commit of 40 hex digits: "
                "a branch or tag can move under the experiment"
            )

    def run(self, ctx: Context) -> Tokenizer:
        from marin.data.tokenizer import download_tokenizer

        loaded = download_tokenizer(ctx.out, self.repository, self.revision)
        return Tokenizer(vocabulary=loaded.vocabulary, digest=loaded.digest)
