"""``marin cat CHECKPOINT --prompt``: continue texts with a checkpoint at once, without a step or a record."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from marin.cli.completions import complete_output
from marin.cli.make_steps import read_model
from marin.cli.new_model import GivenModel, names_model
from marin.cli.parameters import option
from marin.errors import BadField, UnknownStep
from marin.report.contents import tokenizer_of
from marin.report.table import open_console, say
from marin.store.inventory import Inventory, read_inventory
from marin.store.lookup import output_called, published_as
from marin.store.record import Record
from marin.store.store import Store

if TYPE_CHECKING:
    from marin.store.files.directory import Directory

CHECKPOINT, TOKENIZER = "checkpoint", "tokenizer"  # kinds of artifacts
TOKENS = 64


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    prompts: tuple[str, ...] = option(
        "--prompt", "Continue TEXT with the checkpoint OUTPUT (repeatable).", multiple=True, metavar="TEXT"
    )
    tokens: int | None = option(
        "--tokens", f"At most N tokens after each prompt; {TOKENS} by default.", type=click.IntRange(min=1)
    )
    temperature: float | None = option(
        "--temperature",
        "Sample the tokens at this temperature; without it, take the likeliest.",
        type=click.FloatRange(min=0),
    )
    seed: int | None = option("--seed", "Sample other tokens.", type=int)
    tokenizer: str | None = option(
        "--tokenizer", "A tokenizer of the store, if the checkpoint's inputs name none.", complete=complete_output
    )

    def must_have_prompts(self) -> None:
        """Raise UsageError for options that need --prompt."""
        for each in fields(self):
            if each.name != "prompts" and getattr(self, each.name) is not None:
                raise click.UsageError(f"--{each.name} says how a checkpoint writes on; give --prompt TEXT")


def write_on(store: Store, name: str, options: WritingOptions, *, latest: bool, as_json: bool) -> None:
    """Print each prompt with its continuation. Raises BadField, UnknownStep, and the errors of a damaged checkpoint."""
    inventory, record, folder = _model_and_tokenizer(store, name, options.tokenizer, latest=latest)
    about = open_console(stderr=True)
    temperature, seed = options.temperature or 0.0, options.seed or 0
    how = f"temperature {temperature:g}, seed {seed}" if temperature else "greedy"
    say(about, f"{record.name} {record.identity[:12]}  {how}", "bold")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # silences the note that PyTorch is missing
    with warnings.catch_warnings(action="ignore"):  # Levanter's imports warn
        written = _written(inventory.store.output(record), folder, options, temperature, seed)
    console = open_console()
    for number, (prompt, text) in enumerate(zip(options.prompts, written, strict=True)):
        if as_json:
            click.echo(json.dumps({"prompt": prompt, "text": text}, ensure_ascii=False))
            continue
        say(console, f"— prompt {number}", "bold cyan")
        console.print(Text.assemble((prompt, "bold"), text), soft_wrap=True)


def _model_and_tokenizer(
    store: Store, name: str, tokenizer: str | None, *, latest: bool
) -> tuple[Inventory, Record, Directory]:
    given = name
    if not names_model(given):
        inventory = read_inventory(store)
        record = output_called(inventory, name, latest=latest)
        if record.kind != CHECKPOINT:
            raise BadField(f"{record.name} holds {record.kind}; only a checkpoint writes on from a prompt")
        given = published_as(record)
        if tokenizer is not None or not names_model(given):
            return inventory, record, _tokenizer(inventory, record, tokenizer)
        if (there := store.record(GivenModel(given).step().tokenizer.identity)) is not None:
            return inventory, record, store.output(there)
    record, its_own = read_model(store, GivenModel(given))
    inventory = read_inventory(store)
    folder = store.output(its_own) if tokenizer is None else _tokenizer(inventory, record, tokenizer)
    return inventory, record, folder


def _tokenizer(inventory: Inventory, record: Record, name: str | None) -> Directory:
    """Return the named tokenizer, or the tokenizer of the text on which the checkpoint was trained."""
    if name is not None:
        named = output_called(inventory, name)
        if named.kind != TOKENIZER:
            raise BadField(f"--tokenizer {name}: {named.name} holds {named.kind}; name a tokenizer")
        return inventory.store.output(named)
    level, seen = [record], {record.identity}
    while level:
        found: dict[Any, Directory] = {}
        for each in level:
            if each.kind == "tokens" and (folder := tokenizer_of(inventory, each)) is not None:
                found[each.facts.get("tokenizer")] = folder
            elif each.kind == TOKENIZER:
                found[each.facts.get("digest")] = inventory.store.output(each)
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            raise BadField(f"{record.name} was made with {len(found)} tokenizers; choose one with --tokenizer NAME")
        read = {each.identity for above in level for each in above.inputs} - seen
        seen |= read
        level = [inventory.records[each] for each in sorted(read) if each in inventory.records]
    raise UnknownStep(
        f"no input of {record.name}, direct or not, names a tokenizer that the store {inventory.store.prefix} holds; "
        "name one with --tokenizer"
    )


def _written(
    directory: Directory, folder: Directory, options: WritingOptions, temperature: float, seed: int
) -> list[str]:
    import numpy as np

    from marin.data.tokenizer import load_tokenizer
    from marin.training.checkpoint import read_facts
    from marin.training.scoring import load_model
    from marin.training.writing import continuation

    tokenizer, facts = load_tokenizer(folder), read_facts(directory)
    most, before = options.tokens or TOKENS, tokenizer.eos if facts.before is None else facts.before
    prompts = [np.array([before, *ids], np.int32) for ids in tokenizer.encode(options.prompts)]
    for prompt, text in zip(prompts, options.prompts, strict=True):
        if len(prompt) + most > facts.model.seq_len:
            raise BadField(
                f"the prompt {text[:40]!r} has {len(prompt)} tokens with the token before it, and {most} more do not "
                f"fit into the model's sequences of {facts.model.seq_len}; shorten the prompt, or give fewer --tokens"
            )
    model = load_model(directory, eos=tokenizer.eos)
    made = model.generate(prompts, most, tokenizer.eos, lambda _: False, temperature=temperature, seed=seed)
    return [continuation(tokenizer, prompt.tolist(), each) for prompt, each in zip(prompts, made, strict=True)]
