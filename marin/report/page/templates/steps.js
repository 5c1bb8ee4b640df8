// The list of steps: by operator, the longest first, 50 at a time. A link to #s12 opens step 12.
const AT_ONCE = 50;
const UNSETTLED = ["failed", "stopped", "running"];

const decoded = (data) =>
  data.labels.map((label, at) => {
    const op = data.ops[data.op[at]];
    const path = `${op}/${label.replace(/[^A-Za-z0-9._-]+/g, "-")}-${data.identity[at]}.0001`;
    const inputs = data.inputs[at];
    const [names, ...values] = data.facts[at];
    const step = {
      at,
      op,
      label,
      status: data.statuses[data.status[at]],
      reason: data.texts[data.reason[at]],
      seconds: data.seconds[at],
      identity: data.identity[at],
      inputs: Array.isArray(inputs)
        ? inputs.map((each) => (typeof each === "number" ? at - each : each))
        : data.lists[inputs],
      output: data.output[at] === 1 ? path : data.output[at],
      log: data.log[at] === 1 ? `${path}/.marin/log.txt` : data.log[at],
      facts: values.map((value, index) => [data.fact_names[names][index], value]).filter(([, value]) => value),
      error: data.texts[data.error[at]] ?? "",
      notes: (data.notes[at] ?? []).map((text) => data.texts[text]),
    };
    step.name = label.startsWith(`${op}/`) ? label : `${op}/${label}`;
    step.text = [step.name, step.status, step.reason, step.output, step.identity, step.error, ...step.notes]
      .join(" ")
      .toLowerCase();
    return step;
  });

class Steps {
  constructor(element, data) {
    this.prefix = data.prefix;
    this.steps = decoded(data);
    this.store = JSON.parse(document.getElementById("marin-store")?.textContent ?? "null");
    const apart = new Set(data.apart);
    const byOperator = Map.groupBy(this.steps, (step) => step.op);
    const groups = [...byOperator].map(([op, steps]) => this.group(op, steps));
    groups.sort((a, b) => b.seconds - a.seconds);
    const longest = groups[0]?.seconds || 1;
    for (const group of groups) group.bar.style.width = `${(100 * group.seconds) / longest}%`;
    const unsettled = this.steps.filter((step) => UNSETTLED.includes(step.status) || apart.has(step.at));
    const first = make("div");
    if (unsettled.length) {
      first.append(make("h3", {}, "Failed, unfinished, changed or rebuilt"));
      this.fill(first, this.sorted(unsettled));
    }
    const found = make("div");
    const count = make("output");
    const filter = make("input", {
      type: "search",
      placeholder: "name, status, reason, path",
      "aria-label": "filter steps",
    });
    const folds = make("div", {}, make("h3", {}, "By operator"), ...groups.map((group) => group.fold));
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const matching = this.steps.filter((step) => words.every((word) => step.text.includes(word)));
      folds.hidden = first.hidden = words.length > 0;
      count.textContent = words.length ? `${matching.length} of ${this.steps.length} steps` : "";
      found.replaceChildren();
      if (words.length) this.fill(found, this.sorted(matching));
    });
    this.linked = make("div");
    element.append(make("div", { class: "tools" }, filter, count), this.linked, found, first, folds);
    addEventListener("hashchange", () => this.follow());
    addEventListener("pointerover", (event) => this.hint(event.target.closest?.('a[href^="#s"]')));
    this.follow();
  }

  // Failed, stopped and running steps come first, then the steps that took longest.
  sorted(steps) {
    const rank = (step) => (UNSETTLED.includes(step.status) ? UNSETTLED.indexOf(step.status) : UNSETTLED.length);
    return steps.toSorted((a, b) => rank(a) - rank(b) || (b.seconds ?? 0) - (a.seconds ?? 0));
  }

  group(op, steps) {
    const counts = Map.groupBy(steps, (step) => step.status);
    const seconds = steps.reduce((total, step) => total + (step.seconds ?? 0), 0);
    const bar = make("i");
    const tally = [...counts].map(([status, those]) =>
      this.status(status, counts.size > 1 ? `${those.length} ${status}` : status),
    );
    const summary = make(
      "summary",
      {},
      make("b", {}, op),
      make("span", {}, `${steps.length} step${steps.length > 1 ? "s" : ""}`),
    );
    summary.append(make("span", {}, ...tally), make("span", { class: "number" }, took(seconds)), make("span", {}, bar));
    const fold = make("details", { class: "fold" }, summary);
    fold.addEventListener(
      "toggle",
      () => fold.open && fold.children.length === 1 && this.fill(fold, this.sorted(steps)),
      true,
    );
    return { fold, bar, seconds };
  }

  status(status, text) {
    return make("span", { class: `status k-${status}` }, text);
  }

  fill(place, steps) {
    place.append(...steps.slice(0, AT_ONCE).map((step) => this.row(step)));
    if (steps.length <= AT_ONCE) return;
    const more = make("button", { type: "button" }, `${steps.length - AT_ONCE} more`);
    more.addEventListener("click", () => {
      more.remove();
      this.fill(place, steps.slice(AT_ONCE));
    });
    place.append(more);
  }

  row(step) {
    const summary = make("summary", {}, this.status(step.status, step.status), make("b", {}, step.name));
    summary.append(
      make("span", { class: "number" }, took(step.seconds)),
      make("span", {}, [step.reason, ...step.notes].filter(Boolean).join("; ")),
    );
    const row = make("details", { class: `step ${step.status}` }, summary);
    row.addEventListener("toggle", () => row.open && row.children.length === 1 && row.append(...this.details(step)));
    if (step.error) row.open = true;
    return row;
  }

  details(step) {
    const list = make("dl");
    const add = (name, ...value) => list.append(make("dt", {}, name), make("dd", {}, ...value));
    const code = make("code", {}, step.identity);
    add("identity", this.store && step.output ? make("a", { href: this.store.step + step.identity }, code) : code);
    if (step.inputs.length) add("inputs", ...this.inputs(step.inputs));
    if (step.output) add("output", make("span", { class: "path" }, step.output));
    for (const [name, value] of step.facts) add(name, value);
    if (step.log) add("log", this.log(step));
    for (const note of step.notes) add("note", note);
    return step.error ? [list, make("pre", {}, step.error)] : [list];
  }

  inputs(inputs) {
    const link = (each) => (typeof each === "number" ? make("a", { href: `#s${each}` }, this.steps[each].name) : each);
    const links = (some) => some.flatMap((each, index) => (index ? [", ", link(each)] : [link(each)]));
    if (inputs.length <= AT_ONCE) return links(inputs);
    const rest = make("details", {}, make("summary", {}, `and ${inputs.length - AT_ONCE} more`));
    rest.addEventListener("toggle", () => rest.append(...links(inputs.slice(AT_ONCE))), { once: true });
    return [...links(inputs.slice(0, AT_ONCE)), rest];
  }

  log(step) {
    if (this.store) return make("a", { href: `${this.store.step}${step.identity}/log`, class: "path" }, step.log);
    const path = step.log.startsWith("/") ? step.log : `${this.prefix.replace(/\/$/, "")}/${step.log}`;
    const href = `file://${encodeURI(path)}`;
    return path.startsWith("/") ? make("a", { href, class: "path" }, step.log) : make("span", { class: "path" }, path);
  }

  // Shows the step in the address, opened, above the list.
  follow() {
    const step = this.steps[location.hash.match(/^#s(\d+)$/)?.[1]];
    this.linked.replaceChildren();
    if (!step) return;
    const row = this.row(step);
    row.id = `s${step.at}`;
    row.open = true;
    this.linked.append(row);
    row.scrollIntoView();
  }

  hint(link) {
    const step = this.steps[link?.getAttribute("href").slice(2)];
    if (step && !link.title)
      link.title = [step.name, `${step.status} ${took(step.seconds)}`, step.reason, step.error]
        .filter(Boolean)
        .join("\n");
  }
}

for (const element of document.querySelectorAll("div.steps"))
  unpack(element.querySelector("script")).then((data) => new Steps(element, data));
