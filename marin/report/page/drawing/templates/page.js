"use strict";
document.documentElement.classList.add("js");

// Steps table: sort by a column, filter by text, open and close all details.
const table = document.querySelector("table.steps");
if (table) {
  const body = table.tBodies[0], rows = [...body.rows];
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("thead th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
      const order = new Intl.Collator(undefined, {numeric: true});
      body.append(...[...rows].sort((a, b) => (down ? -1 : 1) * order.compare(key(a), key(b))));
    });
  });
  const filter = document.querySelector(".tools input"), shown = document.querySelector(".tools output");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
      count += !row.hidden;
    }
    shown.textContent = `${count} of ${rows.length} steps`;
  });
  document.querySelector(".tools button").addEventListener("click", event => {
    const all = [...table.querySelectorAll("details")], open = !all.some(one => one.open);
    all.forEach(one => { one.open = open; });
    event.target.textContent = open ? "close details" : "open details";
  });
}

// Graph: pointing at a step dims everything that neither leads to it nor follows from it.
const nodes = [...document.querySelectorAll(".graph .node")];
const list = text => text ? text.split(" ").map(Number) : [];
const inputs = new Map(), consumers = new Map();
for (const node of nodes) for (const step of list(node.dataset.steps)) {
  inputs.set(step, list(node.dataset.inputs));
  for (const input of list(node.dataset.inputs)) consumers.set(input, [...(consumers.get(input) ?? []), step]);
}
const reach = (starts, next) => {
  const found = new Set(starts);
  for (const step of found) for (const other of next.get(step) ?? []) found.add(other);
  return found;
};
const pictures = document.querySelectorAll(".graph");
const light = starts => {
  const on = starts && new Set([...reach(starts, inputs), ...reach(starts, consumers)]);
  pictures.forEach(picture => picture.classList.toggle("lit", Boolean(on)));
  if (!on) return;
  for (const node of nodes) node.classList.toggle("on", list(node.dataset.steps).some(step => on.has(step)));
  for (const edge of document.querySelectorAll(".graph .edge"))
    edge.classList.toggle("on", list(edge.dataset.edge).every(step => on.has(step)));
};
for (const node of nodes) {
  node.addEventListener("pointerenter", () => light(list(node.dataset.steps)));
  node.addEventListener("pointerleave", () => light(null));
  node.addEventListener("focus", () => light(list(node.dataset.steps)));
  node.addEventListener("blur", () => light(null));
}
