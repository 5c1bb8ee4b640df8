"""Contaminated text in disguise: how much is found, how much too much, how fast: ``./py benchmarks/data/disguises.py``.

Suites: GSM8K and HumanEval in ../shared/data, and whatever is given as NAME=FILE or NAME=FOLDER, as it was published.
Clean text: 2,000 of GSM8K's training problems (of the same kind as its test, a few nearly equal), PEPs, RFCs, and
books. ``--before REVISION`` measures that revision's search beside today's, in the same run.

A disguise shows an item alone; "answer" only items whose answer has at least 8 words, since a letter is in every text.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared/data"
ITEMS = 250  # of a suite that are shown
NEGATIVES = 2000
LOOKALIKE = str.maketrans("aceopxyiABCEHKMOPTX", "асеорхуіАВСЕНКМОРТХ")
ACCENT = str.maketrans("aeiouncAEIOU", "áèîõüñçÁÈÎÕÜ")
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def plain(item: Any) -> str:
    """Question, whatever else is shown, answer: as most prompts have it."""
    shown = [item.question, *(text for name, text in item.others if name == "choices")]
    return "\n".join([*shown, f"Answer: {item.answer}"])


def olmes(item: Any) -> str:
    steps = re.sub(r"<<.*?>>", "", item.answer).split("####")[0].strip()
    return f"Question: {item.question}\nAnswer: {re.sub(r'([-+*/=])', r' \1 ', steps)} So the answer is {item.final}."


def lettered(item: Any) -> str:
    choices = dict(item.others).get("choices", item.answer).split("\n")
    return "\n".join(
        [item.question, *(f"{letter}. {text}" for letter, text in zip("ABCDEFGHIJ", choices, strict=False))]
    )


def edited(every: int) -> Callable[[Any], str]:
    def edit(item: Any) -> str:
        words = olmes(item).split() if "####" in item.answer else plain(item).split()
        return " ".join("other" if n % every == every // 2 else word for n, word in enumerate(words))

    return edit


def long_answer(item: Any) -> str | None:
    return item.answer if len(item.answer.split()) >= 8 else None


THIRTEEN: dict[str, Callable[[Any], str | None]] = {
    "prompt": lambda item: f"Question: {item.question}\nAnswer: {item.answer}" if not item.others else plain(item),
    "olmes": olmes,
    "question": lambda item: item.question,
    "answer": long_answer,
    "lettered": lettered,
    "lower bare": lambda item: re.sub(r"[^\w\s]", "", plain(item).lower()),
    "upper": lambda item: plain(item).upper(),
    "wrapped": lambda item: "\n".join(textwrap.wrap(plain(item), 40)),
    "inline": lambda item: "An earlier note. " * 200 + " ".join(plain(item).split()) + " A later note." * 200,
    "html": lambda item: "".join(f"<p>{html.escape(line)}</p>\n" for line in plain(item).split("\n")),
    "json": lambda item: json.dumps({"question": item.question, **dict(item.others), "answer": item.answer}),
    "1 in 12": edited(12),
    "1 in 6": edited(6),
}
HIDDEN: dict[str, Callable[[Any], str | None]] = {
    "homoglyphs": lambda item: plain(item).translate(LOOKALIKE),
    "accents": lambda item: plain(item).translate(ACCENT),
    "s p a c e d": lambda item: " ".join(plain(item)),
    "zero width": lambda item: "\u200b".join(plain(item)),
    "soft hyphen": lambda item: re.sub(r"(\w{3})(?=\w)", "\\1\u00ad", plain(item)),
    "full width": lambda item: plain(item).translate(FULL_WIDTH),
    "numbers": lambda item: re.sub(r"\d+", lambda found: str(int(found.group()) % 997 + 3), plain(item)),
}


def suites(given: list[str]) -> Iterator[tuple[str, list[Any]]]:
    from marin.evaluation.published import is_suite, read_suite
    from marin.store.files.directory import Directory

    known = {"gsm8k": SHARED / "gsm8k/test.jsonl", "humaneval": SHARED / "humaneval/HumanEval.jsonl.gz"}
    for name, path in {
        **known,
        **{name: Path(path) for name, _, path in (each.partition("=") for each in given)},
    }.items():
        folder = path if path.is_dir() else path.parent
        names = [each.name for each in sorted(path.iterdir()) if is_suite(each.name)] if path.is_dir() else [path.name]
        yield name, [item for each in names for item in read_suite(Directory(str(folder)), each)]


def clean() -> dict[str, list[str]]:
    rows = [json.loads(line) for line in (SHARED / "gsm8k/train.jsonl").read_text().splitlines()]
    problems = [f"Question: {row['question']}\nAnswer: {row['answer']}" for row in rows]
    packed = [(SHARED / f"{name}/{name}.jsonl.gz").read_bytes() for name in ("peps", "rfcs")]
    texts = [json.loads(line)["text"] for each in packed for line in gzip.decompress(each).splitlines()]
    books = "\n\n".join(path.read_text(errors="replace") for path in sorted((SHARED / "gutenberg").glob("*.txt")))
    paragraphs = books.split("\n\n")
    books_cut = ["\n\n".join(paragraphs[at : at + 20]) for at in range(0, len(paragraphs), 20)]
    return {"train": random.Random(14).sample(problems, NEGATIVES), "other": [*texts, *books_cut]}


def measure(given: list[str]) -> dict[str, Any]:
    """{suite: {"items", "unindexed", "found": {disguise: share}, "false": {kind: count}, "of", "speed", "build"}}."""
    from marin.text.overlap import OverlapIndex
    from marin.text.overlap_rule import Overlap

    negatives = clean()
    size = sum(len(text.encode()) for text in negatives["other"])
    table: dict[str, Any] = {}
    for name, items in suites(given):
        began = time.process_time()
        index = OverlapIndex(items, Overlap())
        build = time.process_time() - began
        shown = sorted(random.Random(14).sample(range(len(items)), min(ITEMS, len(items))))
        found = {}
        for disguise, show in {**THIRTEEN, **HIDDEN}.items():
            texts = {number: text for number in shown if (text := show(items[number])) is not None}
            hits = [any(hit.item == number for hit in index.find(text)) for number, text in texts.items()]
            found[disguise] = sum(hits) / len(hits) if hits else None
        speeds = []
        for _ in range(3):
            began = time.process_time()
            wrong = {"other": sum(bool(index.find(text)) for text in negatives["other"])}
            speeds.append(size / 1e6 / (time.process_time() - began))
        wrong["train"] = sum(bool(index.find(text)) for text in negatives["train"])
        table[name] = {
            "items": len(items),
            "unindexed": len(index.unindexed),
            "found": found,
            "false": wrong,
            "of": {kind: len(texts) for kind, texts in negatives.items()},
            "speed": max(speeds),
            "build": build,
        }
    return table


def told(table: dict[str, Any]) -> None:
    for name, row in table.items():
        shares = {disguise: share for disguise, share in row["found"].items() if share is not None}
        thirteen = [share for disguise, share in shares.items() if disguise in THIRTEEN]
        print(f"\n{name}: {row['items']} items, {row['unindexed']} too short; index in {row['build']:.1f} s")
        print(f"  mean of the {len(thirteen)}: {sum(thirteen) / len(thirteen):.3f}")
        print("  " + "  ".join(f"{disguise} {share:.2f}" for disguise, share in shares.items()))
        wrong = ", ".join(f"{row['false'][kind]} of {row['of'][kind]} {kind}" for kind in ("train", "other"))
        print(f"  false: {wrong}; {row['speed']:.1f} MB/s a core", flush=True)


def revision_measured(revision: str, given: list[str]) -> dict[str, Any]:
    """Run this script with the search of another revision and today's readers of suites; return its measurements."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", revision, "marin/text"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["cp", "-r", str(ROOT / "marin"), folder], check=True)
        subprocess.run(["rm", "-rf", f"{folder}/marin/text"], check=True)
        subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
        done = subprocess.run(
            [sys.executable, __file__, "--json", *given],
            env={**os.environ, "PYTHONPATH": folder},
            cwd=folder,
            check=True,
            capture_output=True,
        )
    return json.loads(done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="NAME=PATH")
    parser.add_argument("--before", metavar="REVISION")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.before:
        print(f"== {arguments.before}")
        told(revision_measured(arguments.before, arguments.suites))
        print("\n== now")
    measured = measure(arguments.suites)
    print(json.dumps(measured)) if arguments.json else told(measured)
