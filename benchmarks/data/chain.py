"""The whole chain from text to tokens, ours and datatrove's as shipped, stage by stage on the same text in one run.

    ./py benchmarks/data/chain.py FOLDER [--megabytes 200] [--peers-megabytes 200]

FOLDER: files of text (.txt, .txt.gz). The benchmark takes files in an order by seed until they reach that many
megabytes. The RFCs are a good text, 830 MB: the Debian packages doc-rfc-*; paragraphs become lines. Each stage reads
the whole text, so no stage gains by another's drops: reading, filters, exact and near duplicates, decontamination
against GSM8K and HumanEval, GPT-2's tokenizer. The filters are PROSE and the published ones: Gopher repetition and
quality, C4 without its line rule, FineWeb. Each stage has a process of its own on one core. The table has MB for each
CPU second, the process's start included, and the peak memory.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.data.real_text import SHARED

ROOT = Path(__file__).resolve().parents[2]
FILES = 8
TOKENIZER = SHARED / "gpt2-tokenizer/tokenizer.json"
HEAD_OR_FOOT = re.compile(r"\[Page \d+\]|^RFC \d+ .* \d{4}$")
END = "<|endoftext|>"
EXPERIMENT = """\"\"\"Exp 1: from text to tokens.\"\"\"

from pathlib import Path

from marin import Experiment, Scale, executor_main
from marin.text.presets import PROSE
from marin.text.published import C4, FineWeb, GopherQuality, GopherRepetition, Published
from operators.decontaminate import Decontaminate
from operators.download import FsspecFiles
from operators.exact_dedup import ExactDedup
from operators.filter import Filter
from operators.near_dedup import NearDedup
from operators.pretrained_tokenizer import FolderTokenizer
from operators.read_suite import ReadSuite
from operators.text_files import TextFiles
from operators.tokenize import Tokenize

FOLDER, SHARED = Path({folder!r}), Path({shared!r})
RULES = Published((GopherRepetition(), GopherQuality(), C4(ended=False), FineWeb()))
SUITES = {{"gsm8k": "gsm8k/test.jsonl", "humaneval": "humaneval/HumanEval.jsonl.gz"}}


def build(scale: Scale) -> Experiment:
    read = TextFiles(path=str(FOLDER / "text"), label="chain")
    files = {{name: FsspecFiles(urls=(str(SHARED / path),), label=name) for name, path in SUITES.items()}}
    suites = tuple(ReadSuite(files=each, label=name) for name, each in files.items())
    tokenizer = FolderTokenizer(path={tokenizer!r}, label="gpt2")
    results = {{"read": read, "suites": suites[0], "others": suites[1], "tokenizer": tokenizer}}
    results["prose"] = Filter(documents=read, quality=PROSE, max_removed=1.0, label="prose")
    results["published"] = Filter(documents=read, quality=RULES, max_removed=1.0, label="published")
    results["exact"] = ExactDedup(documents=read, max_removed=1.0, label="chain")
    results["near"] = NearDedup(documents=read, max_removed=1.0, label="chain")
    results["clean"] = Decontaminate(documents=read, against=suites, max_removed=1.0, label="chain")
    results["tokens"] = Tokenize(documents=read, tokenizer=tokenizer, label="chain")
    return Experiment(issue=1, repository="", question=__doc__, results=results)


if __name__ == "__main__":
    executor_main(build)
"""


@dataclass(frozen=True)
class Took:
    """CPU seconds, and MiB of memory at most."""

    seconds: float
    memory: float


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--megabytes", type=float, default=200.0)
    arguments.add_argument(
        "--peers-megabytes", type=float, default=200.0, help="as much of the same text for datatrove"
    )
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="chain-") as name:
        folder = Path(name)
        print(f"corpus: {write_corpus(given.folder, folder, given.megabytes, 'text')}")
        ours(folder)
        print(f"for datatrove: {write_corpus(given.folder, folder, given.peers_megabytes, 'theirs')}")
        datatrove(folder)


def write_corpus(source: Path, folder: Path, megabytes: float, name: str) -> str:
    """FILES files of JSON lines, gzip."""
    paths = sorted(path for path in source.rglob("*") if path.is_file() and path.name.endswith((".txt", ".txt.gz")))
    random.Random(0).shuffle(paths)
    (folder / name).mkdir()
    size, shards = 0, tuple[list[str], ...]([] for _ in range(FILES))
    for count, path in enumerate(paths):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = unwrapped(raw.decode(errors="replace"))
        shards[count % FILES].append(json.dumps({"id": path.name, "text": text}) + "\n")
        size += len(text.encode())
        if size >= megabytes * 1e6:
            break
    for at, lines in enumerate(shards):
        (folder / name / f"{at}.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), compresslevel=1))
    return f"{sum(map(len, shards)):,} documents, {size / 1e6:.1f} MB"


def unwrapped(text: str) -> str:
    """A paragraph a line, without the heads and feet of pages: as the web has text, and the filters want it."""
    lines = [line for line in text.replace("\f", "").splitlines() if not HEAD_OR_FOOT.search(line)]
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def run(command: list[str], folder: Path) -> Took:
    """Run a command to its end, and measure the process and its children."""
    settings = {"PYTHONPATH": str(ROOT), "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **settings})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        sys.exit(f"{' '.join(command)}\n{(folder / 'log.txt').read_text()[-3000:]}")
    return Took(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def ours(folder: Path) -> None:
    tokenizer = folder / "gpt2"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    (tokenizer / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    (folder / "exp1_chain.py").write_text(
        EXPERIMENT.format(folder=str(folder), shared=str(SHARED), tokenizer=str(tokenizer))
    )

    def stage(name: str) -> Took:
        options = ("--only", name, "--backend", "inline", "--prefix", str(folder / "store"))
        return run([sys.executable, str(folder / "exp1_chain.py"), *options], folder)

    for name in ("suites", "others", "tokenizer"):
        stage(name)
    report("marin", folder / "text", {name: partial(stage, name) for name in STAGES})


STAGES = ("read", "prose", "published", "exact", "near", "clean", "tokens")


def report(tool: str, text: Path, stages: dict[str, Callable[[], Took]]) -> None:
    size, took = size_of(text), dict[str, float]()
    for name, stage in stages.items():
        seen = stage()
        took[name] = seen.seconds
        print(f"{tool:10} {name:10} {size / seen.seconds:7.2f} MB/s of a core, {seen.memory:6.0f} MiB", flush=True)
    for filters in ("prose", "published"):
        if filters in took:
            used = sum(
                seconds for name, seconds in took.items() if name in (filters, *set(STAGES) - {"prose", "published"})
            )
            print(f"{tool:10} all, filtered by {filters}: {size / used:.2f} MB/s of a core", flush=True)


def size_of(folder: Path) -> float:
    """MB of text."""
    lines = (line for path in folder.iterdir() for line in gzip.decompress(path.read_bytes()).splitlines())
    return sum(len(json.loads(line)["text"].encode()) for line in lines) / 1e6


def datatrove(folder: Path) -> None:
    def stage(name: str) -> Took:
        return run([sys.executable, __file__, "--theirs", name, str(folder)], folder)

    report("datatrove", folder / "theirs", {name: partial(stage, name) for name in ("published", "near", "tokens")})


def theirs(name: str, folder: Path) -> None:
    """One stage of datatrove, in this process."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline import dedup, filters
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer
    from datatrove.pipeline.writers import JsonlWriter
    from datatrove.utils.hashing import HashConfig

    made = folder / "made"

    def execute(*blocks: Any, tasks: int = FILES) -> None:
        logs = str(made / "logs")
        LocalPipelineExecutor(list(blocks), tasks=tasks, workers=1, logging_dir=logs, skip_completed=False).run()

    if name == "published":
        execute(
            JsonlReader(str(folder / "theirs")), filters.GopherRepetitionFilter(), filters.GopherQualityFilter(),
            filters.C4QualityFilter(filter_no_terminal_punct=False), filters.FineWebQualityFilter(),
            JsonlWriter(str(made / "filter")),
        )  # fmt: skip
    elif name == "near":
        # Its default, xxhash, hashes no str in the releases of xxhash that it installs.
        config = dedup.minhash.MinhashConfig(hash_config=HashConfig(hash_fc="sha1"))
        work = made / "work"
        execute(
            JsonlReader(str(folder / "theirs")), dedup.MinhashDedupSignature(str(work / "signatures"), config=config)
        )
        execute(
            dedup.MinhashDedupBuckets(str(work / "signatures"), str(work / "buckets"), config=config),
            tasks=config.num_buckets,
        )
        execute(dedup.MinhashDedupCluster(str(work / "buckets"), str(work / "removed"), config=config), tasks=1)
        execute(
            JsonlReader(str(folder / "theirs")), dedup.MinhashDedupFilter(str(work / "removed")),
            JsonlWriter(str(made / "near")),
        )  # fmt: skip
    else:
        execute(
            JsonlReader(str(folder / "theirs")),
            DocumentTokenizer(str(made / "tokens"), str(TOKENIZER), eos_token=END, shuffle_documents=False),
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--theirs"]:
        theirs(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
