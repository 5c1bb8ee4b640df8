"""Both runs over their tokens, drawn from the experiments: ``./py docs/timeline.py > docs/images/runs.svg``."""

# pyright: basic
from __future__ import annotations

import hashlib
import io
import json
import sys
from bisect import bisect_right
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments import exp977_deeper_starling, exp1529_mantis
from marin import Scale
from operators.train import Train

RUNS = {
    "Marin 8B": (exp977_deeper_starling, ("8b-",)),
    "Marin 32B": (exp1529_mantis, ("32b-", "mantis")),
}
GROUPS = {
    "DCLM": ("dclm_baseline", "dolmino/dclm"),
    "Nemotron-CC": ("nemotron_cc/",),
    "code": ("starcoderdata", "common_pile"),
    "mathematics": ("proofpile", "finemath", "megamath", "all_math", "dolma/algebraic", "dolma/open-web-math"),
    "instructions": ("dolmino/flan",),
    "papers, forums, encyclopedias": ("",),
}
COLOURS = ("#4c78a8", "#72b7b2", "#e45756", "#f2a33a", "#b279a2", "#9d9d9d")
LABELS = {"32b-llama": "Llama", "32b-qwen3": "QK-Norm"}


def chain(module: Any, prefixes: tuple[str, ...]) -> list[Train]:
    steps = (step for step in module.build(Scale.FULL).steps() if isinstance(step, Train))
    return sorted((run for run in steps if run.label.startswith(prefixes)), key=lambda run: run.first_step)


def group(source: str) -> str:
    return next(name for name, starts in GROUPS.items() if source.startswith(starts))


def drawn(runs: list[Train]) -> dict[str, Any]:
    """Tokens so far (in trillions), by what is drawn. A run ends where the next one begins."""
    ends = [run.first_step for run in runs[1:]] + [runs[-1].end_step]
    rates: list[tuple[float, float]] = []
    batches: list[tuple[float, int]] = []
    shares: list[tuple[float, dict[str, float]]] = []
    phases: list[tuple[float, str]] = []
    for run, end in zip(runs, ends, strict=True):

        def at(step: int, run: Train = run) -> float:
            return round(run.batch.tokens(run.seq_len, 0, step) / 1e12, 4)

        ramps = run.schedule.ramps()
        corners = {step for ramp in ramps for step in (ramp.start, ramp.end - 1, ramp.end)} | {run.first_step, end - 1}
        corners |= {ramp.start + (ramp.end - ramp.start) * part // 8 for ramp in ramps for part in range(9)}
        for step in sorted(corner for corner in corners if run.first_step <= corner < end):
            rates.append((at(step), round(run.schedule.learning_rate(step, run.optimizer.peak_lr), 9)))
        for step in sorted({run.first_step, *(start for start in run.batch.starts if run.first_step < start < end)}):
            batches.append((at(step), run.batch.batch(step)))
        mixes = run.data.known()
        for step in sorted({run.first_step, *(start for start in mixes if run.first_step < start < end)}):
            mix = mixes[run.data.starts[bisect_right(run.data.starts, step) - 1]]
            parts = dict.fromkeys(GROUPS, 0.0)
            for source, share in mix.weights.items():
                parts[group(source.label)] += share
            shares.append((at(step), {name: round(share, 5) for name, share in parts.items()}))
        name = LABELS.get(run.label, run.label.removeprefix("8b-").replace("-", " ").title())
        if not run.label.startswith("32b-llama-"):  # Llama's phases are one
            phases.append((at(run.first_step), name))
    total = round(runs[-1].batch.tokens(runs[-1].seq_len, 0, ends[-1]) / 1e12, 4)
    return {"rates": rates, "batches": batches, "shares": shares, "phases": phases, "tokens": total}


def digest(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def picture(data: dict[str, Any]) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings = {"svg.hashsalt": "marin", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False}
    with mpl.rc_context(settings | {"axes.spines.right": False, "font.family": "sans-serif"}):
        figure = Figure(figsize=(12, 6.4), layout="constrained")
        axes = figure.subplots(3, 2, sharex="col", height_ratios=(2, 1, 2))
        for column, (title, run) in enumerate(data.items()):
            _column(axes[:, column], title, run, first=column == 0)
        handles, names = axes[2, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(GROUPS), frameon=False)
        written = io.BytesIO()
        metadata: Any = {"Date": None, "Creator": None, "Description": f"data {digest(data)}"}
        FigureCanvasSVG(figure).print_svg(written, metadata=metadata)
    return written.getvalue().decode()


def _column(axes: Any, title: str, run: dict[str, Any], *, first: bool) -> None:
    end = run["tokens"]
    rate, batch, mixture = axes
    rate.set_title(title, loc="left", fontweight="bold", pad=36)
    rate.plot(*zip(*run["rates"], strict=True), color="#4c78a8", linewidth=1)
    rate.set_yscale("log")
    rate.set_ylim(1e-5, 3e-3)
    for position, (at, name) in enumerate(run["phases"]):
        for each in axes:
            each.axvline(at, color="#bbbbbb", linewidth=0.6, zorder=0)
        rate.annotate(
            name, (at, 1), (2, 3 + 10 * (position % 3)), xycoords=("data", "axes fraction"), textcoords="offset points"
        )
    starts, sizes = zip(*run["batches"], strict=True)
    batch.step([*starts, end], [*sizes, sizes[-1]], where="post", color="#4c78a8", linewidth=1)
    batch.set_ylim(0, 9000)
    at, parts = zip(*run["shares"], strict=True)
    edges = [step for start, stop in zip(at, [*at[1:], end], strict=True) for step in (start, stop)]
    stacked = [[100 * part[name] for part in parts for _ in range(2)] for name in GROUPS]
    mixture.stackplot(edges, stacked, labels=list(GROUPS), colors=COLOURS, linewidth=0)
    mixture.set_ylim(0, 100)
    mixture.set_xlim(0, end)
    mixture.set_xlabel("tokens (trillions)")
    if first:
        for each, label in zip(axes, ("learning rate", "batch (sequences)", "mixture (%)"), strict=True):
            each.set_ylabel(label)


def data() -> dict[str, Any]:
    return {title: drawn(chain(*run)) for title, run in RUNS.items()}


if __name__ == "__main__":
    sys.stdout.write(picture(data()))
