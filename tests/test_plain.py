"""English that is read once: how many sentences begin with a clause, point with "it", or are long, part by part.

A thermometer with generous bounds: it sees words, not meaning. CONTRIBUTING.md says how a sentence should read.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CLAUSE = re.compile(
    r"(?:And |But |So |Also |Then |There |Nor )?(?:What|Whatever|Whoever|Whether|Which|Where|Who|Of|How)\b"
)
POINTER = re.compile(
    r"\b(?:what (?:it|they|was|is|the|a|an|one|we|this|that|its)|(?:that|those) of|of (?:it|them|that|what)|by that"
    r"|whoever|thereof|anew)\b",
    re.IGNORECASE,
)
WORDS = 30  # of a sentence that is not long
BOUNDS = (1.0, 2.0, 6.0)  # percent of sentences, pointers in 1,000 words, percent of sentences
CHAIN = ("store", "steps", "fingerprint", "plan", "executor", "report", "upkeep", "cli")
PARTS = {
    "README and CONTRIBUTING": ("README.md", "CONTRIBUTING.md"),
    "docs": ("docs/**/*.md", "CHANGELOG.md"),
    "engine": ("marin/*.py", *(f"marin/{part}/**/*.py" for part in CHAIN)),
    "library": tuple(f"marin/{part}/**/*.py" for part in ("text", "data", "training", "evaluation")),
    "operators and experiments": ("operators/**/*.py", "experiments/*.py", "infra/*.py"),
    "tests and benchmarks": ("tests/**/*.py", "benchmarks/**/*.py", "benchmarks/**/*.md"),
}


def prose(path: Path) -> str:
    """Markdown as it is; of Python the docstrings, comments and messages of errors."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(ast.get_docstring(node) or "")
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                pieces = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
                found.append("".join(each.value if isinstance(each, ast.Constant) and isinstance(each.value, str)
                                     else "X" for each in pieces))  # fmt: skip
    comment: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment.append(token.string.lstrip("# "))
        elif token.type not in (tokenize.NL, tokenize.NEWLINE) and comment:
            found.append(" ".join(comment))
            comment = []
    return "\n\n".join(found)


def sentences(text: str) -> Iterator[str]:
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*|#\d])", text):
        for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z“\"])", " ".join(block.split()).strip(" |#*-")):
            if len(sentence.split()) >= 4:
                yield sentence


def measured(texts: list[str]) -> tuple[float, float, float]:
    every = [sentence for text in texts for sentence in sentences(text)]
    words = sum(len(sentence.split()) for sentence in every)
    clauses = sum(bool(CLAUSE.match(each)) and not each.rstrip().endswith("?") for each in every)
    pointers = sum(len(POINTER.findall(each)) for each in every)
    return (
        100 * clauses / len(every),
        1000 * pointers / words,
        100 * sum(len(each.split()) > WORDS for each in every) / len(every),
    )


@pytest.mark.parametrize("part", PARTS)
def test_sentences_are_read_once(part: str) -> None:
    paths = [path for pattern in PARTS[part] for path in sorted(ROOT.glob(pattern))]
    assert paths
    found = measured([prose(path) for path in paths])
    for value, bound, habit in zip(found, BOUNDS, ("begin with a clause", "point", "are long"), strict=True):
        assert value <= bound, f"{part}: {value:.1f} of sentences {habit}; at most {bound} may"


def test_the_habits_are_seen() -> None:
    assert measured(["What was made before is found. The step reads it."])[0] == 50
    assert measured(["The plan shows the inputs of it and those of another step in this run."])[1] > 100
    assert measured(["A plan lists " + "one more step and " * 8 + "then ends here."])[2] == 100
