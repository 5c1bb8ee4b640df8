"""Test a page in a real browser: everything fits, can be read, and follows light, dark and paper."""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from marin.executor.run_results import Status
from marin.report.page import graph
from marin.report.page.model import ExperimentPage
from marin.report.page.render import render
from tests.report import sample
from tests.report.serve.test_in_chromium import CHROMIUM, QUIET, needs_chromium
from tests.report.test_drawn_page import HOSTILE, hostile, many_steps

pytestmark = [pytest.mark.slow, needs_chromium]

BEFORE = """<script>
const wrong = [];
addEventListener("error", (event) => wrong.push(event.message));
addEventListener("unhandledrejection", (event) => wrong.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => wrong.push(event.blockedURI));
console.error = (...told) => wrong.push(told.join(" "));
</script>"""
# Runs a script once the page is drawn, and writes the script's result into the document.
AFTER = """<script>
setTimeout(async () => {
  const wait = () => new Promise((done) => setTimeout(done, 200));
  const told = await (async () => { %s })();
  document.body.replaceChildren(Object.assign(document.createElement("pre"), {id: "told"}));
  document.getElementById("told").textContent = JSON.stringify({...told, wrong});
}, 1500);
</script>"""
LOOK = """
const texts = [...document.querySelectorAll("main *:not(svg *)")].filter((one) =>
  one.checkVisibility() && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
const sizes = texts.map((one) => [parseFloat(getComputedStyle(one).fontSize), one.textContent.slice(0, 40)]);
return {
  wide: document.documentElement.scrollWidth, window: innerWidth,
  small: sizes.filter(([size]) => size < 12),
  canvases: document.querySelectorAll(".training canvas").length,
  plots: [...document.querySelectorAll(".uplot")].map((one) => one.getBoundingClientRect().right),
  boxes: document.querySelectorAll("a.box").length, lines: document.querySelectorAll(".trunk path[d]").length,
  folds: document.querySelectorAll(".fold").length,
  cut: [...document.querySelectorAll(".picture .scroll")].map((one) => one.scrollWidth - one.clientWidth),
};
"""


def chromium(html: str, folder: Path, *options: str) -> str:
    page = folder / "page.html"
    page.write_text(html, errors="backslashreplace")
    command = [CHROMIUM, *QUIET, f"--user-data-dir={folder}/profile", "--virtual-time-budget=6000", *options]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def seen(
    page: ExperimentPage, folder: Path, width: int, script: str = LOOK, *options: str, style: str = ""
) -> dict[str, Any]:
    html = render(page).replace("<title>", BEFORE + style + "<title>", 1).replace("</body>", AFTER % script + "</body>")
    shown = chromium(html, folder, f"--window-size={width},900", "--dump-dom", *options)
    told = re.search(r'<pre id="told">(.*?)</pre>', shown, re.DOTALL)
    assert told is not None
    return json.loads(unescape(told[1]))


WIDER = "<style>body { letter-spacing: 0.05em; }</style>"  # as a font with wider letters


@pytest.mark.parametrize("width", [1200, 1000, 500])
@pytest.mark.parametrize(("dark", "style"), [(False, ""), (True, ""), (False, WIDER)], ids=["light", "dark", "wider"])
def test_a_page_fits_and_can_be_read(width: int, dark: bool, style: str, tmp_path: Path) -> None:
    page = sample.page()
    options = ["--blink-settings=preferredColorScheme=0"] if dark else []
    found = seen(page, tmp_path, width, LOOK, *options, style=style)
    assert found["wrong"] == []
    assert found["window"] == width
    assert found["wide"] <= width
    assert found["small"] == []
    assert found["cut"] == [0]
    assert found["canvases"] == 3
    assert all(right <= width for right in found["plots"])
    drawn = graph.draw(page.steps).boxes
    assert (found["boxes"], found["lines"]) == (len(drawn["boxes"]), len(drawn["edges"]))
    assert found["folds"] == len({step.op for step in page.steps})


def test_curves_answer_to_buttons_and_steps_to_filter_and_links(tmp_path: Path) -> None:
    script = """
    const labels = () => [...document.querySelectorAll(".training .x-axis")].map((one) => one.textContent);
    const all = (what) => [...document.querySelectorAll(what)];
    const press = (text) => all(".tools button").find((one) => one.textContent === text).click();
    press("tokens"); press("arms only"); press("log"); await wait();
    const filter = document.querySelector(".steps input");
    filter.value = "tokenize dolmino"; filter.dispatchEvent(new Event("input")); await wait();
    const filtered = all(".step b").filter((one) => one.checkVisibility()).map((one) => one.textContent);
    location.hash = "#s3"; await wait();
    const linked = document.getElementById("s3");
    return {
      labels: labels(), filtered,
      names: all(".training .values:first-child span").map((one) => one.textContent.trim()),
      counted: document.querySelector(".steps output").textContent,
      linked: [linked.open, linked.querySelector("b").textContent, linked.querySelectorAll("dt").length > 3],
    };
    """
    page = sample.page()
    found = seen(page, tmp_path, 1000, script)
    assert found["wrong"] == []
    assert found["labels"] == ["tokens"]
    assert found["names"] == ["Bison", "Mantis"]
    assert sorted(found["filtered"]) == sorted(
        step.name for step in page.steps if step.op == "tokenize" and "dolmino" in step.name
    )
    assert found["counted"] == f"{len(found['filtered'])} of {len(page.steps)} steps"
    assert found["linked"] == [True, page.steps[3].name, True]


def test_the_pointer_tells_values_in_all_panels_and_dragging_zooms_all(tmp_path: Path) -> None:
    script = """
    const values = () => [...document.querySelectorAll(".training .values")].map((one) => one.innerText);
    const over = document.querySelector(".training .u-over");
    const box = over.getBoundingClientRect();
    const point = (kind, part, on = over) => on.dispatchEvent(new MouseEvent(kind, {
      clientX: box.left + part * box.width, clientY: box.top + 90, bubbles: true, button: 0, movementX: 9}));
    point("mousemove", 0.5); await wait();
    const half = values();
    point("mousedown", 0.5); await wait(); point("mousemove", 0.75); await wait();
    point("mouseup", 0.75, document); await wait();
    point("mousemove", 0); await wait();
    const zoomed = values();
    point("dblclick", 0); await wait();
    point("mousemove", 0.001); await wait();
    return {half, zoomed, whole: values()};
    """
    found = seen(sample.page(), tmp_path, 1000, script)
    assert found["wrong"] == []
    for name, step in (("half", 95), ("zoomed", 95), ("whole", 0)):
        loss, rate, _ = found[name]
        [at] = re.findall(r"step ([\d.]+)", loss)
        assert abs(float(at) - step) < 1.5
        run = sample.page().runs[step >= 80]
        near = run.column("step").index(round(float(at)))
        there = run.column("loss")[near]
        assert f"{there:.3f}" in loss or f"{there:.2f}" in loss
        assert "7e−4" in rate or "3.5e−4" in rate


def test_hostile_labels_stay_text_when_scripts_draw_them(tmp_path: Path) -> None:
    script = """
    for (const fold of document.querySelectorAll("details")) fold.open = true;
    await wait();
    return {tags: document.querySelectorAll("main :is(img, script:not([type]))").length, text: document.body.innerText};
    """
    found = seen(hostile(HOSTILE), tmp_path, 900, script)
    assert (found["wrong"], found["tags"]) == ([], 0)
    assert found["text"].count("<img src=x onerror=alert(1)>") > 20


def test_failed_steps_are_open_in_the_list(tmp_path: Path) -> None:
    script = (
        """return {open: [...document.querySelectorAll(".steps > div > .step[open]")].map((one) => one.textContent)};"""
    )
    [failed] = seen(sample.failed(), tmp_path, 800, script)["open"]
    assert "train/kestrel_llama" in failed
    assert "loss is nan" in failed


def test_ten_thousand_steps_are_a_page_of_less_than_a_megabyte_that_draws(tmp_path: Path) -> None:
    steps = many_steps("chains", 10_000)
    steps[9_000] = replace(steps[9_000], status=Status.FAILED, error="ValueError: no text")
    runs = sample.runs(random.Random(1), scale=20)
    page = replace(sample.page(), steps=steps, runs=runs)
    assert len(render(page).encode()) < 1_000_000
    found = seen(page, tmp_path, 500)
    assert (found["wrong"], found["canvases"], found["boxes"]) == ([], 3, 4)
    assert found["wide"] <= 500


def test_a_dark_page_is_printed_on_white(tmp_path: Path) -> None:
    dark = "--blink-settings=preferredColorScheme=0"
    chromium(render(sample.page()), tmp_path, f"--print-to-pdf={tmp_path}/page.pdf", dark)
    assert (tmp_path / "page.pdf").read_bytes()[:4] == b"%PDF"
