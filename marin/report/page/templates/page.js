"use strict";
document.documentElement.classList.add("scripted");

// An element with attributes and what is in it; texts stay texts.
const make = (name, attributes = {}, ...inside) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
};

// Data stand in script elements as JSON; where they are long as a string: base64 of gzip of it.
const unpack = async (element) => {
  const value = JSON.parse(element.textContent);
  if (typeof value !== "string") return value;
  const bytes = Uint8Array.from(atob(value), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};

// Tables of steps: sort by a column.
const collator = new Intl.Collator(undefined, {numeric: true});
for (const table of document.querySelectorAll("table.steps")) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending", body = table.tBodies[0];
      table.querySelectorAll("thead th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
      body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * collator.compare(key(a), key(b))));
    });
  });
}

// All steps: filter by text, which opens the folds that hold some; a link to a step opens its fold.
const filter = document.querySelector(".tools input"), folds = [...document.querySelectorAll(".fold")];
const steps = [...document.querySelectorAll(".steps tbody tr, .fold li")].map(one => {
  const fold = one.closest(".fold"), operator = fold?.dataset.op ?? "";
  return {one, fold, text: `${operator}/${one.textContent}`.toLowerCase()};
});
filter?.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), holding = new Set();
  let count = 0;
  for (const {one, fold, text} of steps) {
    one.hidden = !words.every(word => text.includes(word));
    if (!one.hidden) { count += 1; holding.add(fold); }
  }
  for (const fold of folds) {
    fold.hidden = !holding.has(fold);
    fold.open = words.length > 0 && holding.has(fold);
  }
  document.querySelector(".tools output").textContent = words.length ? `${count} of ${steps.length} steps` : "";
});
// What lines read stands there by number; names take its place when somebody opens the fold.
const called = number => {
  const one = document.getElementById(`s${number}`), link = document.createElement("a");
  const label = one.firstChild.textContent.trim(), op = one.closest(".fold")?.dataset.op;
  link.href = `#s${number}`;
  link.textContent = one.localName !== "li" ? one.cells[1].dataset.key : op ? `${op}/${label}` : label;
  return link;
};
for (const fold of folds) fold.addEventListener("toggle", () => {
  for (const read of fold.open ? fold.querySelectorAll("u:not(.named)") : []) {
    read.replaceChildren(...read.textContent.split(" ").flatMap((number, at) => at ? [", ", called(number)] : [called(number)]));
    read.classList.add("named");
  }
});
const unfold = () => {
  const fold = location.hash && document.getElementById(location.hash.slice(1))?.closest(".fold");
  if (fold && !fold.open) { fold.open = true; document.getElementById(location.hash.slice(1)).scrollIntoView(); }
};
addEventListener("hashchange", unfold);
unfold();

// Graph: pointing at a step dims everything that neither leads to it nor follows from it.
const nodes = [...document.querySelectorAll(".graph .node")];
const list = text => text ? text.split(" ").map(Number) : [];
const holder = new Map();
for (const node of nodes) for (const step of list(node.dataset.steps)) holder.set(step, node);
const inputs = new Map(), consumers = new Map(nodes.map(node => [node, []]));
for (const node of nodes) {
  inputs.set(node, [...new Set(list(node.dataset.inputs).map(step => holder.get(step)))]);
  for (const input of inputs.get(node)) consumers.get(input).push(node);
}
const reach = (start, next) => {
  const found = new Set([start]);
  for (const node of found) for (const other of next.get(node)) found.add(other);
  return found;
};
const pictures = document.querySelectorAll(".graph");
const light = start => {
  const on = start && new Set([...reach(start, inputs), ...reach(start, consumers)]);
  pictures.forEach(picture => picture.classList.toggle("lit", Boolean(on)));
  if (!on) return;
  for (const node of nodes) node.classList.toggle("on", on.has(node));
  for (const edge of document.querySelectorAll(".graph .edge"))
    edge.classList.toggle("on", list(edge.dataset.edge).every(step => on.has(holder.get(step))));
};
for (const node of nodes) {
  node.addEventListener("pointerenter", () => light(node));
  node.addEventListener("pointerleave", () => light(null));
  node.addEventListener("focus", () => light(node));
  node.addEventListener("blur", () => light(null));
}
