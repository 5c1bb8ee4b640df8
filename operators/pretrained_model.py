"""PretrainedModel, FolderModel: import the weights of a published model, or of a folder, as a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from marin import Checkpoint, Context, Directory, ExecutorStep, Size, Tokenizer, execution
from marin.errors import InputError, StoreFull, TokenizerMismatch
from marin.training.model import ModelShape
from operators.checkpoint_artifact import artifact_of
from operators.pretrained_tokenizer import FolderTokenizer, PretrainedTokenizer, must_be_commit
from operators.text_files import must_be_absolute

if TYPE_CHECKING:
    from marin.data.tokenizer import LoadedTokenizer
    from marin.training.config_json import PublishedConfig

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


class PretrainedModel(ExecutorStep[Checkpoint], op="pretrained-model", isolated=True):
    """The weights of a Hugging Face repository at one commit, as a checkpoint for every step that takes one.

    repo: "owner/name". revision: a commit, 40 hex digits; a branch can move, so marin refuses it. shape, vocabulary:
    give both, and marin can check and price a training from this model before it downloads anything. The step compares
    them with config.json. ``marin new model hf:OWNER/NAME@COMMIT`` writes them down. vocabulary counts the rows of the
    embedding, which may be more than the entries of the tokenizer.

    Reads Llama, Mistral, Qwen 2.5, Qwen 3 and OLMo 2 from safetensors. The logits of each equal the logits of
    transformers within 1e-4 (tests/training/published). The step reads config.json first. It refuses another
    architecture, or a field that may change the arithmetic, before it downloads the weights. Memory, for a model of any
    size: one mapped file and twice the largest tensor in float32. Measured: 358 MiB for 662 M parameters in shards of
    113 MiB, in 11 s (benchmarks/training/import_memory.py).

    The checkpoint has only weights: begin with ``Fork(model, optimizer_state=OptimizerState.FRESH)``. marin does not
    know the text that the model read, or its schedule.
    """

    repo: str
    revision: str
    shape: ModelShape | None = execution(default=None)
    vocabulary: int | None = execution(default=None)

    def check(self) -> None:
        must_be_commit("PretrainedModel", self.repo, self.revision)

    @property
    def tokenizer(self) -> PretrainedTokenizer:
        """The model's own."""
        return PretrainedTokenizer(repo=self.repo, revision=self.revision, vocabulary=self.vocabulary)

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return _size(self.shape, self.vocabulary)

    def run(self, ctx: Context) -> Checkpoint:
        return _import(self.name, ctx, _HubFiles(self.repo, self.revision, ctx.state), self.shape, self.vocabulary)


class FolderModel(ExecutorStep[Checkpoint], op="folder-model", isolated=True):
    """The weights of a folder that ``save_pretrained`` of transformers wrote; see PretrainedModel.

    path: the folder, as an absolute path or a URL. It holds config.json, safetensors, tokenizer.json and
    tokenizer_config.json. A file that changes later shows as drift.
    """

    path: str
    shape: ModelShape | None = execution(default=None)
    vocabulary: int | None = execution(default=None)

    def check(self) -> None:
        must_be_absolute("FolderModel.path", self.path, "str(Path(__file__).parent / ...) is beside the experiment")

    @property
    def tokenizer(self) -> FolderTokenizer:
        """The model's own."""
        return FolderTokenizer(path=self.path, vocabulary=self.vocabulary)

    def outside(self) -> dict[str, str]:
        from marin.data.outside_files import outside_files

        return outside_files(self.path.rstrip("/"))

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return _size(self.shape, self.vocabulary)

    def run(self, ctx: Context) -> Checkpoint:
        return _import(self.name, ctx, _FolderFiles(self.path.rstrip("/"), ctx.state), self.shape, self.vocabulary)


def is_its_tokenizer(model: PretrainedModel | FolderModel, tokenizer: ExecutorStep[Tokenizer]) -> bool:
    """Return whether a tokenizer is the model's own, with any end of documents; True if nothing tells."""
    if isinstance(model, PretrainedModel) and isinstance(tokenizer, PretrainedTokenizer):
        return (tokenizer.repo, tokenizer.revision) == (model.repo, model.revision)
    if isinstance(model, FolderModel) and isinstance(tokenizer, FolderTokenizer):
        return tokenizer.path.removesuffix("/tokenizer.json").rstrip("/") == model.path.rstrip("/")
    return True


class _Files(Protocol):
    """The files of a model. where: the model's name in error messages."""

    where: str

    def read(self, name: str) -> bytes:
        """Return a small file. Raises InputError if it is not there."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file, by name."""
        ...

    def licence(self) -> str | None: ...

    def on_disk(self, name: str) -> AbstractContextManager[Path]:
        """Return a context in which the file is on a local disk."""
        ...

    def kept_bytes(self, names: list[str]) -> int:
        """Return the bytes that these files will add to the state."""
        ...


class _HubFiles:
    def __init__(self, repo: str, revision: str, state: Directory) -> None:
        self.where = f"hf:{repo}@{revision[:12]}"
        self._repo, self._revision, self._state = repo, revision, state

    def read(self, name: str) -> bytes:
        from marin.data.hub import fetch_model_file

        return fetch_model_file(self._repo, self._revision, name, self._state)

    def sizes(self) -> dict[str, int]:
        return {name: file.bytes for name, file in self._listing()[0].items()}

    def licence(self) -> str | None:
        return self._listing()[1]

    def on_disk(self, name: str) -> AbstractContextManager[Path]:
        from marin.data.hub import keep_hub_file

        return keep_hub_file(self._repo, self._revision, self._listing()[0][name], self._state, "model").on_disk()

    def kept_bytes(self, names: list[str]) -> int:
        from marin.data.hub import kept_hub_file

        files = (self._listing()[0][name] for name in names)
        return sum(
            file.bytes for file in files if not kept_hub_file(self._repo, self._revision, file, self._state).there()
        )

    def _listing(self) -> Any:
        from marin.data.hub import list_model_files

        if not hasattr(self, "_listed"):
            self._listed = list_model_files(self._repo, self._revision)
        return self._listed


class _FolderFiles:
    def __init__(self, path: str, state: Directory) -> None:
        from marin.data.outside_files import list_files

        self.where = path
        self._state = state
        self._files = {file.name: file for file in list_files((path,))}

    def read(self, name: str) -> bytes:
        with self.on_disk(name) as path:
            return path.read_bytes()

    def sizes(self) -> dict[str, int]:
        return {name: file.size for name, file in self._files.items()}

    def licence(self) -> str | None:
        from huggingface_hub import ModelCard

        if "README.md" not in self._files:
            return None
        return getattr(ModelCard(self.read("README.md").decode(), ignore_metadata_errors=True).data, "license", None)

    def on_disk(self, name: str) -> AbstractContextManager[Path]:
        from contextlib import nullcontext

        from marin.data.outside_files import keep_file

        if name not in self._files:
            raise InputError(f"{self.where} has no {name}; wanted a folder as transformers' save_pretrained writes it")
        if Path(self.where).is_dir():
            return nullcontext(Path(self.where) / name)
        return keep_file(self._files[name], self._state).on_disk()

    def kept_bytes(self, names: list[str]) -> int:
        return 0 if Path(self.where).is_dir() else sum(self._files[name].size for name in names)


def _import(name: str, ctx: Context, files: _Files, shape: ModelShape | None, vocabulary: int | None) -> Checkpoint:
    from marin.training.checkpoint import Facts, Origin
    from marin.training.config_json import CONFIG, read_config
    from marin.training.import_weights import INDEX, file_names, import_weights

    config = read_config(files.read(CONFIG), files.where)
    _must_be_as_declared(name, files.where, config, shape, vocabulary)
    sizes = files.sizes()
    names = file_names(files.read(INDEX) if INDEX in sizes else None, sizes, files.where)
    tokenizer = _tokenizer(files, ctx.state)
    if tokenizer.vocabulary > config.rows:
        raise TokenizerMismatch(
            f"{files.where}: its tokenizer has {tokenizer.vocabulary:,} entries and its embedding only "
            f"{config.rows:,} rows, so some tokens have no row; take the tokenizer of the model"
        )
    _must_have_room(ctx, config, files.kept_bytes(names))
    facts = Facts(
        step=0,
        tokens=0,
        loss=None,
        model=config.shape,
        vocabulary=config.rows,
        averaged=False,
        finite=True,
        before=tokenizer.begins_with,
        origin=Origin(
            source=files.where,
            licence=files.licence(),
            tokenizer=tokenizer.digest,
            entries=tokenizer.vocabulary,
            stored="",
        ),
    )

    def on_disk() -> Iterator[tuple[str, Path]]:
        for number, each in enumerate(names, start=1):
            ctx.progress(number, len(names), "files", note=each)
            with files.on_disk(each) as path:
                yield each, path

    facts = import_weights(on_disk(), ctx.out, facts, files.where)
    assert facts.origin is not None
    ctx.log(
        f"{facts.parameters:,} parameters, stored as {facts.origin.stored}; {facts.vocabulary:,} rows for "
        f"{facts.origin.entries:,} entries; {'tied' if facts.model.tied_embeddings else 'separate'} embeddings; "
        f"licence: {facts.origin.licence or 'none is named'}"
    )
    return artifact_of(ctx.out)


def _must_be_as_declared(
    name: str, where: str, config: PublishedConfig, shape: ModelShape | None, vocabulary: int | None
) -> None:
    for field, said, found in (("shape", shape, config.shape), ("vocabulary", vocabulary, config.rows)):
        if said is not None and said != found:
            raise InputError(f"{name}: {field} is {said}, and config.json of {where} says {found}; correct {field}")


def _tokenizer(files: _Files, state: Directory) -> LoadedTokenizer:
    from marin.data.tokenizer import load_tokenizer

    folder = state / "tokenizer"
    for each in TOKENIZER_FILES:
        folder.write_bytes(each, files.read(each))
    return load_tokenizer(folder)


def _must_have_room(ctx: Context, config: PublishedConfig, kept: int) -> None:
    """Check before the download that the disk has room. kept: bytes of weights in the state until the commit."""
    import shutil

    if not ctx.out.is_local:
        return
    needed = 4 * config.shape.parameters(config.rows) + (kept if ctx.state.is_local else 0)
    free = shutil.disk_usage(ctx.state.path if ctx.state.path.exists() else ctx.out.path).free
    if free < needed:
        raise StoreFull(
            f"{ctx.out.url}: the model takes {needed / 2**20:,.1f} MiB until it is committed, and the disk has "
            f"{free / 2**20:,.1f} MiB left; free some (marin gc) or move the store. The step has read only the "
            "configuration and the tokenizer, no weights"
        )


def _size(shape: ModelShape | None, vocabulary: int | None) -> Size | None:
    return None if shape is None or vocabulary is None else Size(bytes=4 * shape.parameters(vocabulary))
