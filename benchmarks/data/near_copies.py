"""NearDedup on copies that are known: recall, precision, MB a CPU second, memory.

    ./py benchmarks/data/near_copies.py [FOLDER] [--originals 320] [--peer] [--memory 5 20 80 [--bucket-keys N]]

Originals are documents of ../shared/data, or of a folder of JSON lines (gzip, field ``text``). Each original has edited
versions, from one word in a thousand to one in eight, and some have an excerpt. The truth comes from exact comparison
of sets of five words. --peer also runs datatrove's MinHash (14 bands of 8) on the copies. --memory runs NearDedup, each
time in a process of its own, over so many MB of text without copies, in shards of 5 MB.
"""

# pyright: basic
from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.data.real_text import SHARED, texts
from marin import Documents, ExecutorStep
from marin.data import near_copies
from marin.data.documents import Document, write_documents, write_shard
from marin.data.dropped import read_dropped
from marin.store.files.directory import Directory
from marin.text.near_rule import NearDuplicates
from marin.text.normalize import light_words
from operators.near_dedup import NearDedup

EDITS = (1000, 300, 100, 60, 40, 25, 15, 8)  # one word in so many
ORIGINALS, EXCERPTS, LEAST_WORDS = 320, 30, 300
SHARD_MEGABYTES = 5


class Input(ExecutorStep[Documents], op="benchmark-near-copies-input"):
    def run(self, ctx: Any) -> Documents:
        raise AssertionError("it is given")


@dataclass
class Here:
    """A Context in this process."""

    out: Directory
    state: Directory
    made: Documents

    def __getitem__(self, step: object) -> Documents:
        return self.made

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [work(item) for item in items]

    def write_shards(self, work: Callable[[Any, Directory], Any], items: Sequence[Any], kind: type[Any]) -> list[Any]:
        return [work(item, self.out) for item in items]

    def progress(self, done: float, total: float, unit: str, note: str = "") -> None:
        pass

    def log(self, message: str) -> None:
        print(f"  {message}")


@dataclass(frozen=True)
class Labelled:
    """Texts, originals first; of the others: kind, and how similar they are to their original."""

    texts: list[str]
    originals: int
    kinds: dict[int, str]
    similar: dict[int, tuple[float, float]]


def grams(text: str) -> set[tuple[str, ...]]:
    words = light_words(text)
    return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}


def similarity(one: set[Any], other: set[Any]) -> tuple[float, float]:
    shared = len(one & other)
    return shared / max(len(one | other), 1), shared / max(len(one), 1)


def labelled(folder: Path, most: int) -> Labelled:
    chance = random.Random(14)
    long = [text for text in texts(folder) if len(light_words(text)) >= LEAST_WORDS]
    originals = chance.sample(long, min(most, len(long)))
    held: list[tuple[int, str, str]] = []
    for at, text in enumerate(originals):
        words = re.findall(r"\S+\s*", text)
        for one_in in EDITS:
            edited = list(words)
            for place in chance.sample(range(len(words)), max(len(words) // one_in, 1)):
                edited[place] = chance.choice(words)
            held.append((at, f"1 in {one_in}", "".join(edited)))
        if at < EXCERPTS:
            length = int(len(words) * chance.uniform(0.1, 0.5))
            start = chance.randrange(len(words) - length)
            held.append((at, "excerpt", "".join(words[start : start + length])))
    chance.shuffle(held)
    sets = [grams(text) for text in originals]
    after = {len(originals) + place: each for place, each in enumerate(held)}
    return Labelled(
        originals + [text for _, _, text in held],
        len(originals),
        {place: kind for place, (_, kind, _) in after.items()},
        {place: similarity(grams(text), sets[at]) for place, (at, _, text) in after.items()},
    )


def dedup(documents: Documents, folder: str) -> tuple[Documents, float]:
    """Run NearDedup; return the documents that stay, and CPU seconds."""
    step = NearDedup(documents=Input(), max_removed=1.0)
    here: Any = Here(Directory(f"{folder}/out"), Directory(f"{folder}/state"), documents)
    began = time.process_time()
    made: Any = step.run(here)
    return made.at(here.out), time.process_time() - began


def given(held: list[str], folder: str) -> Documents:
    size = sum(map(len, held)) / 1e6
    where = Directory(f"{folder}/in")
    count, written, shards = write_documents(where, map(Document, held), max(int(size / SHARD_MEGABYTES), 1))
    made: Any = Documents(documents=count, bytes=written, shards=shards).at(where)
    return made


def report(name: str, set_: Labelled, removed: set[int], seconds: float) -> None:
    def share(wanted: Callable[[int], bool]) -> str:
        held = [place for place in set_.kinds if wanted(place)]
        found = sum(place in removed for place in held)
        return f"{found}/{len(held)} = {found / max(len(held), 1):.3f}"

    rule = NearDuplicates()
    size = sum(len(text.encode()) for text in set_.texts) / 1e6
    print(f"{name}: {size / seconds:.2f} MB/s of {size:.1f} MB, a CPU second")
    print(f"  found at J >= {rule.jaccard}: {share(lambda place: set_.similar[place][0] >= rule.jaccard)}")
    print(f"  found at J >= {rule.jaccard} or containment >= {rule.containment}: ", end="")
    print(share(lambda at: set_.similar[at][0] >= rule.jaccard or set_.similar[at][1] >= rule.containment))
    print(f"  excerpts found: {share(lambda place: set_.kinds[place] == 'excerpt')}")
    print(f"  originals removed: {sum(place < set_.originals for place in removed)} of {set_.originals}")


def ours(set_: Labelled) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made, seconds = dedup(given(set_.texts, folder), folder)
        places: dict[str, list[int]] = {}
        for place, text in enumerate(set_.texts):
            places.setdefault(Document(text).id, []).append(place)
        removed: set[int] = set()
        right = 0
        rule = NearDuplicates()
        for dropped in read_dropped(made.directory):
            # The first of equal texts stays, unless it copies another.
            mine, of = places[dropped.id].pop(), places[dropped.detail["of"]][0]
            removed.add(mine)
            jaccard, containment = similarity(grams(set_.texts[mine]), grams(set_.texts[of]))
            right += jaccard >= rule.jaccard or containment >= rule.containment
        report("NearDedup", set_, removed, seconds)
        print(f"  removed, and a copy of what it is said to copy: {right}/{len(removed)} = {right / len(removed):.3f}")


def datatrove(set_: Labelled) -> None:
    from datatrove.data import Document as Theirs
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
    from datatrove.pipeline.dedup import MinhashDedupSignature as Signature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.hashing import HashConfig

    # Its default, xxhash, hashes no str in the releases of xxhash that it installs.
    rule = MinhashConfig(hash_config=HashConfig(hash_fc="sha1"))

    kept: set[int] = set()

    def read(data: object, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        yield from (Theirs(text=text, id=str(place)) for place, text in enumerate(set_.texts))

    def keep(data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        for document in data:
            kept.add(int(document.id))
            yield document

    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        for at, (pipeline, tasks) in enumerate(
            (
                ([read, Signature(f"{folder}/signatures", config=rule)], 1),
                ([MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=rule)], 14),
                ([MinhashDedupCluster(f"{folder}/buckets", f"{folder}/removed", config=rule)], 1),
                ([read, MinhashDedupFilter(f"{folder}/removed"), keep], 1),
            )
        ):
            LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, logging_dir=f"{folder}/logs/{at}").run()
        seconds = time.process_time() - began
    report("datatrove", set_, set(range(len(set_.texts))) - kept, seconds)


def memory(folder: Path, megabytes: int, bucket_keys: int) -> None:
    originals = texts(folder)
    shards = max(megabytes // SHARD_MEGABYTES, 1)
    with tempfile.TemporaryDirectory() as below:
        where = Directory(f"{below}/in")
        written = [write_shard(where, at, shards, one_shard(originals, at)) for at in range(shards)]
        counts = [sum(counted) for counted in zip(*written, strict=True)]
        subprocess.run(
            [sys.executable, __file__, "--alone", below, *map(str, (*counts, shards, bucket_keys))], check=True
        )


def alone(below: str, documents: int, size: int, shards: int, bucket_keys: int) -> None:
    """Print the memory that NearDedup adds to this process."""
    near_copies.BUCKET_KEYS = bucket_keys
    made: Any = Documents(documents=documents, bytes=size, shards=shards)
    before = resident("VmRSS")
    _, seconds = dedup(made.at(Directory(f"{below}/in")), below)
    added = resident("VmHWM") - before
    state = sum(path.stat().st_size for path in Path(below, "state").rglob("*") if path.is_file())
    print(
        f"{size / 1e6:.0f} MB, {shards} shards: {added:.0f} MB of memory over {before:.0f}, "
        f"{size / 1e6 / seconds:.1f} MB/s, {state / size:.2f} bytes of work in progress a byte of text"
    )


def resident(kind: str) -> float:
    """Return resident memory in MB. (The peak of getrusage starts at the parent process's peak.)"""
    [kilobytes] = re.findall(rf"{kind}:\s*(\d+)", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1e3


def one_shard(originals: list[str], number: int) -> Iterator[Document]:
    """About SHARD_MEGABYTES of text that no other shard has: every word has the shard's letters at its end."""
    ending = "".join(chr(ord("a") + int(digit)) for digit in str(number))
    size, at = 0, number * 97
    while size < SHARD_MEGABYTES * 1e6:
        text = re.sub(r"\b[a-z]+\b", lambda found: found[0] + ending, originals[at % len(originals)])
        size, at = size + len(text), at + 1
        yield Document(text)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, default=SHARED)
    arguments.add_argument("--originals", type=int, default=ORIGINALS)
    arguments.add_argument("--peer", action="store_true", help="run datatrove, too: minutes")
    arguments.add_argument("--memory", nargs="+", type=int, help="MB of text")
    arguments.add_argument("--bucket-keys", type=int, default=near_copies.BUCKET_KEYS)
    asked = arguments.parse_args()
    if asked.memory:
        for megabytes in asked.memory:
            memory(asked.folder, megabytes, asked.bucket_keys)
        return
    set_ = labelled(asked.folder, asked.originals)
    ours(set_)
    if asked.peer:
        datatrove(set_)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        alone(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        main()
