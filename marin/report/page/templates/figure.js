// Figures of curves: panels below one another with one x axis. Dragging zooms all panels, a double click zooms out.
const SIDE = 58; // CSS pixels left of a panel
const LINE = 15; // CSS pixels: height of a line of text
const MOST_ROWS = 6; // rows for the names of marks
const MOST_ENDS = 8; // runs named at the right end; with more, only the line of values names them
const DASHES = [[], [7, 3], [2, 3], [8, 3, 2, 3], [12, 4], [4, 4]];
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const WINDOWS = [1, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025, 2049, 4097]; // steps that a running mean covers
const PRINTED = 690; // CSS pixels: width of the text on a printed sheet

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colourOf = (run) => variable(run.paint);
const dashOf = (colour) => DASHES[(colour + Math.floor(colour / 6)) % 6];
const pale = (hex) => hex + (hex.length === 4 ? "3" : "33");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

const written = (value) => {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e4) return compact.format(value).replace("-", "−");
  const short = Number(value.toPrecision(4));
  const text = short !== 0 && Math.abs(short) < 1e-3 ? short.toExponential() : String(short);
  return text.replaceAll("-", "−");
};

const sums = (values) => {
  let total = 0;
  return values.map((value) => (total += value));
};

// Returns the mean of each value and its neighbours, with fewer neighbours at the ends. Gaps stay.
const runningMean = (values, over) => {
  const half = Math.floor(over / 2);
  const total = sums([0, ...values.map((value) => value ?? 0)]);
  const count = sums([0, ...values.map((value) => (value === null ? 0 : 1))]);
  return values.map((value, at) => {
    const low = Math.max(at - half, 0);
    const high = Math.min(at + half + 1, values.length);
    return value === null ? null : (total[high] - total[low]) / (count[high] - count[low]);
  });
};

// Returns the index of the value nearest to `wanted`. values: ascending.
const nearest = (values, wanted) => {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - values[low - 1] < values[low] - wanted ? low - 1 : low;
};

class Figure {
  constructor(element, data) {
    this.element = element;
    this.data = data;
    for (const run of data.runs) {
      run.at = Object.fromEntries(data.axes.map((axis) => [axis, data.is_training ? sums(run.x[axis]) : run.x[axis]]));
      run.stride ??= 1;
      run.paint = run.colour !== null ? `--arm${run.colour % 6}` : data.is_training ? "--ink" : "--muted";
    }
    const longest = Math.max(...data.runs.map((run) => run.at[data.axes[0]].length * run.stride));
    const fitting = data.is_training && longest >= 24 ? WINDOWS.findLastIndex((over) => over <= longest / 16) : 0;
    this.state = { axis: data.axes[0], armsOnly: false, log: false, over: fitting };
    this.charts = [];
    if (data.is_training) element.append(this.controls());
    this.place = make("div");
    element.append(this.place);
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(element);
    for (const media of ["print", "(prefers-color-scheme: dark)"])
      matchMedia(media).addEventListener("change", () => this.resize());
    this.draw();
  }

  controls() {
    const { data, state } = this;
    const hasBoth = new Set(data.runs.map((run) => run.colour === null)).size > 1;
    const choices = [
      hasBoth ? { "all runs": ["armsOnly", false], "arms only": ["armsOnly", true] } : {},
      { log: ["log", true] },
      data.axes.length > 1 ? Object.fromEntries(data.axes.map((axis) => [axis, ["axis", axis]])) : {},
    ];
    const buttons = [];
    const groups = choices.map((group) =>
      Object.entries(group).map(([text, [name, value]]) => {
        const button = make("button", { type: "button", "aria-pressed": state[name] === value }, text);
        button.addEventListener("click", () => {
          state[name] = state[name] === true ? false : value;
          this.draw();
          for (const [other, key, on] of buttons) other.ariaPressed = state[key] === on;
        });
        buttons.push([button, name, value]);
        return button;
      }),
    );
    const slider = make("input", { type: "range", min: 0, max: WINDOWS.length - 1, value: state.over });
    const says = make("output");
    const say = () => (says.textContent = WINDOWS[state.over] > 1 ? `${WINDOWS[state.over]} steps` : "none");
    say();
    slider.addEventListener("input", () => {
      state.over = Number(slider.value);
      say();
      this.draw();
    });
    groups.push([make("label", {}, "running mean ", slider, " ", says)]);
    return make("div", { class: "tools" }, ...groups.map((group) => make("span", {}, ...group)));
  }

  width() {
    return matchMedia("print").matches ? Math.min(PRINTED, this.element.clientWidth) : this.element.clientWidth;
  }

  resize() {
    if (this.charts.length === 0) this.draw();
    for (const chart of this.charts) {
      if (this.width() > 0) chart.setSize({ width: this.width(), height: chart.height });
      chart.redraw();
    }
  }

  draw() {
    if (this.width() === 0) return; // the figure is inside a closed fold
    for (const chart of this.charts) chart.destroy();
    const { data, state } = this;
    const shown = data.runs.filter((run) => !state.armsOnly || run.colour !== null);
    for (const run of shown) run.here = run.at[state.axis];
    this.shown = shown;
    this.from = Math.min(...shown.map((run) => run.here[0]));
    this.to = Math.max(...shown.map((run) => run.here.at(-1)));
    const ctx = document.createElement("canvas").getContext("2d");
    ctx.font = FONT;
    this.textWidth = (text) => ctx.measureText(text).width;
    this.ends = shown.filter((run) => !data.is_training || run.colour !== null);
    if (this.ends.length > MOST_ENDS) this.ends = [];
    const widest = Math.max(0, ...this.ends.map((run) => this.textWidth(run.name)));
    this.right = Math.min(widest + 14, this.width() / 4);
    const key = (this.key ??= `figure-${Math.random()}`);
    const panels = data.panels.filter((panel) => shown.some((run) => run.y[panel]));
    this.place.replaceChildren();
    this.charts = panels.map((panel, at) => this.panel(panel, at === 0, at === panels.length - 1, key));
  }

  panel(panel, isFirst, isLast, key) {
    const { data, state } = this;
    const runs = this.shown.filter((run) => run.y[panel]);
    const series = [{}];
    const bands = [];
    const tables = runs.map((run) => {
      const raw = run.y[panel];
      const over = Math.round(WINDOWS[state.over] / run.stride);
      const line = {
        stroke: () => colourOf(run),
        dash: dashOf(run.colour ?? 0),
        points: { show: run.dots || raw.length < 2 },
        ...(run.dots ? { paths: () => null } : {}),
      };
      if (isFirst) run.line = over > 1 ? runningMean(run.mean?.[panel] ?? raw, over) : raw;
      if (isFirst && over > 1) {
        series.push({ ...line, dash: [], width: 1, alpha: 0.3 }, { ...line, width: 2 });
        return [run.here, raw, run.line];
      }
      if (run.low) {
        series.push({ stroke: "transparent" }, { stroke: "transparent" });
        bands.push({ series: [series.length - 1, series.length - 2], fill: () => pale(colourOf(run)) });
      }
      series.push({ ...line, width: isFirst ? 1.7 : 1 });
      return [run.here, ...(run.low ? [run.low, run.high] : []), raw];
    });
    const rows = isFirst ? 1 + Math.max(-1, ...this.stacked((x) => this.guess(x)).map((mark) => mark.row)) : 0;
    const says = make("div", { class: "values" });
    const say = (x) => this.say(says, panel, runs, x, isFirst);
    const above = isFirst ? 8 + (data.phases?.length ? LINE + 4 : 0) + rows * LINE : 6;
    const options = {
      width: this.width(),
      height: (isFirst ? 290 : 74) + above + (isLast ? 34 : 8),
      padding: [above, this.right, isLast ? 0 : 8, 0],
      legend: { show: false },
      cursor: { sync: { key, scales: ["x", null] }, y: false, points: { show: false } },
      scales: {
        x: { time: false, range: (_, low, high) => (low < high ? [low, high] : [low - 0.5, low + 0.5]) },
        y: { distr: isFirst && state.log ? 3 : 1, range: (u) => this.range(u, panel, runs, isFirst) },
      },
      axes: [
        { ...this.axis(isLast && data.ticks, isLast ? 34 : 0, isLast), grid: { show: false } },
        { ...this.axis(null, SIDE, true), space: 26 },
      ],
      series,
      bands,
      hooks: {
        drawClear: [(u) => this.drawBands(u, isFirst)],
        draw: [(u) => this.drawMarks(u, isFirst), (u) => isFirst && this.drawEnds(u, runs)],
        setCursor: [(u) => say(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null)],
      },
    };
    this.place.append(says);
    say(null);
    const chart = new uPlot(options, uPlot.join(tables), this.place);
    if (isLast) this.place.append(make("div", { class: "x-axis" }, state.axis));
    return chart;
  }

  axis(ticks, size, isNamed) {
    return {
      size,
      font: FONT,
      stroke: () => variable("--muted"),
      grid: { stroke: () => variable("--rule"), width: 1 },
      ticks: { show: isNamed, stroke: () => variable("--rule"), width: 1, size: 5 },
      values: (_, places) =>
        places.map((place) =>
          ticks?.length ? ticks.find(([at]) => at === place)?.[1] : isNamed ? written(place) : "",
        ),
      ...(ticks?.length ? { splits: ticks.map(([at]) => at) } : {}),
    };
  }

  // The first steps and rare spikes of the loss do not set the scale. A logarithmic axis shows all values.
  range(u, panel, runs, isFirst) {
    const { min, max } = u.scales.x;
    const cutting = isFirst && this.data.is_training && !this.state.log;
    const after = cutting && min <= this.from && max >= this.to ? min + (max - min) * 0.08 : min;
    const found = [];
    for (const run of runs)
      for (const values of [run.y[panel], run.low ?? [], run.high ?? []])
        values.forEach((value, at) => {
          if (value !== null && run.here[at] >= after && run.here[at] <= max) found.push(value);
        });
    if (isFirst && typeof this.data.line === "number") found.push(this.data.line);
    if (this.state.log && isFirst) {
      const above = found.filter((value) => value > 0).sort((a, b) => a - b);
      return above.length ? [above[0] / 1.02, above.at(-1) * 1.02] : [0.1, 1];
    }
    found.sort((a, b) => a - b);
    const low = isFirst ? (found[0] ?? 0) : Math.min(0, found[0] ?? 0);
    const high =
      found[Math.floor((found.length - 1) * (this.data.is_training && panel !== "learning rate" ? 0.995 : 1))] ?? 1;
    const margin = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
    return [isFirst ? low - margin : low, high + margin];
  }

  // Shows the values at x. Their place stays while the pointer is elsewhere. Only the first panel shows the names.
  say(place, panel, runs, x, isFirst) {
    const parts = runs.map((run) => {
      const at = x === null || x < run.here[0] || x > run.here.at(-1) ? -1 : nearest(run.here, x);
      const swatch = make("i", { class: "swatch" });
      swatch.style.borderTopColor = `var(${run.paint})`;
      return make(
        "span",
        {},
        swatch,
        isFirst ? `${run.name} ` : "",
        make("b", {}, at < 0 ? "" : written(run.y[panel][at])),
      );
    });
    const where =
      x === null ? "" : `${this.state.axis} ${Math.abs(x) < 1e4 ? written(x) : Math.round(x).toLocaleString("en")}`;
    place.classList.toggle("idle", x === null && !isFirst);
    place.replaceChildren(make("strong", {}, panel), ...parts, isFirst ? make("em", {}, where) : "");
  }

  // Returns the place of a step on the axis.
  placeOf(step) {
    if (this.state.axis === "step") return step;
    const steps = this.data.axes[0];
    const of = (run) => run.at[steps];
    const run = this.shown.find((one) => of(one)[0] <= step && step <= of(one).at(-1));
    if (run) return run.here[nearest(of(run), step)];
    const before = this.shown.filter((one) => of(one).at(-1) < step).map((one) => one.here.at(-1));
    return before.length ? Math.max(...before) : this.from;
  }

  // Returns the pixel of a place without zoom. It is needed before a chart exists.
  guess(x) {
    return SIDE + ((x - this.from) / (this.to - this.from || 1)) * (this.width() - SIDE - this.right);
  }

  // Returns the marks with the places of their names: right or left of the line, in the first row that has room.
  stacked(position) {
    const [left, right] = [SIDE, this.width() - this.right];
    const ends = [];
    return (this.data.marks ?? []).map((mark) => {
      const x = position(this.placeOf(mark.step));
      const text = this.shortened(mark.text, (right - left) * 0.6);
      const width = this.textWidth(text) + 8;
      const start = x + width <= right ? x + 4 : Math.max(x - width + 4, left);
      const row = [...Array(MOST_ROWS).keys()].find((each) => (ends[each] ?? -Infinity) <= Math.min(start, x));
      const isThere = x >= left - 1 && x <= right + 1;
      if (isThere && row !== undefined) ends[row] = Math.max(start + width, x + 2);
      return { ...mark, x, text, start, isThere, row: isThere ? (row ?? -1) : -1 };
    });
  }

  shortened(text, room) {
    if (this.textWidth(text) <= room) return text;
    let length = text.length;
    while (length > 1 && this.textWidth(`${text.slice(0, length)}…`) > room) length -= 1;
    return `${text.slice(0, length)}…`;
  }

  // uPlot draws in screen pixels; `paint` draws in CSS pixels.
  inCss(u, paint) {
    const { ctx, bbox } = u;
    const ratio = uPlot.pxRatio;
    ctx.save();
    ctx.scale(ratio, ratio);
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    ctx.lineWidth = 1;
    paint(ctx, {
      left: bbox.left / ratio,
      top: bbox.top / ratio,
      width: bbox.width / ratio,
      height: bbox.height / ratio,
    });
    ctx.restore();
  }

  drawBands(u, isFirst) {
    this.inCss(u, (ctx, box) => {
      (this.data.phases ?? []).forEach((phase, at) => {
        const inside = (step) => Math.min(Math.max(this.pixel(u, this.placeOf(step)), box.left), box.left + box.width);
        const [start, end] = [inside(phase.first), inside(phase.end)];
        ctx.fillStyle = variable("--band");
        if (at % 2) ctx.fillRect(start, box.top, end - start, box.height);
        if (!isFirst || end - start < 24) return;
        ctx.fillStyle = variable("--ink");
        ctx.textAlign = "center";
        ctx.fillText(this.shortened(phase.name, end - start - 4), (start + end) / 2, 9);
      });
    });
  }

  pixel(u, x) {
    return u.valToPos(x, "x", true) / uPlot.pxRatio;
  }

  drawMarks(u, isFirst) {
    this.inCss(u, (ctx, box) => {
      const names = this.data.phases?.length ? LINE + 4 : 0;
      const marks = this.stacked((x) => this.pixel(u, x)).filter((mark) => mark.isThere);
      ctx.setLineDash([3, 3]);
      for (const mark of marks) {
        mark.y = names + LINE * (mark.row + 0.5);
        mark.isNamed = isFirst && mark.row >= 0 && mark.y < box.top;
        if (marks.find((other) => other.x === mark.x) !== mark) continue; // two dashed lines would look solid
        ctx.strokeStyle = variable(mark.bad ? "--failed" : "--muted");
        ctx.beginPath();
        ctx.moveTo(mark.x, mark.isNamed ? mark.y - LINE / 2 : box.top);
        ctx.lineTo(mark.x, box.top + box.height);
        ctx.stroke();
      }
      ctx.textAlign = "left";
      for (const mark of marks.filter((each) => each.isNamed)) {
        ctx.fillStyle = variable("--paper");
        ctx.fillRect(mark.start - 1, mark.y - LINE / 2, this.textWidth(mark.text) + 2, LINE);
        ctx.fillStyle = variable(mark.bad ? "--failed" : "--muted");
        ctx.fillText(mark.text, mark.start, mark.y);
      }
      if (isFirst && typeof this.data.line === "number") {
        const y = u.valToPos(this.data.line, "y", true) / uPlot.pxRatio;
        ctx.strokeStyle = variable("--muted");
        ctx.setLineDash([5, 4]);
        ctx.beginPath();
        ctx.moveTo(box.left, y);
        ctx.lineTo(box.left + box.width, y);
        ctx.stroke();
      }
    });
  }

  // Draws the names of the lines at their right ends, at least a line of text apart.
  drawEnds(u, runs) {
    this.inCss(u, (ctx, box) => {
      const lowest = box.top + box.height;
      const found = this.ends
        .filter((run) => runs.includes(run))
        .map((run) => {
          const value = run.line.findLast((each, at) => each !== null && run.here[at] <= u.scales.x.max);
          return { run, y: Math.min(Math.max(u.valToPos(value ?? 0, "y", true) / uPlot.pxRatio, box.top), lowest) };
        });
      found.sort((a, b) => a.y - b.y);
      found.forEach((end, at) => (end.y = at ? Math.max(end.y, found[at - 1].y + LINE) : end.y));
      let below = lowest + LINE;
      for (const end of found.toReversed()) below = end.y = Math.min(end.y, below - LINE);
      for (const { run, y } of found) {
        ctx.fillStyle = colourOf(run);
        ctx.textAlign = "left";
        ctx.fillText(this.shortened(run.name, this.right - 8), box.left + box.width + 6, y);
      }
    });
  }
}

for (const element of document.querySelectorAll(".curves"))
  unpack(element.querySelector("script")).then((data) => data.runs.length && new Figure(element, data));
