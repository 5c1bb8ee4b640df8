// The graph: boxes that dagre places, and lines between them. Pointing at a box lights its inputs and its readers.
const BOX = 134; // CSS pixels; NARROW if the graph would be too wide
const NARROW = 100;
const SVG = "http://www.w3.org/2000/svg";

class Graph {
  constructor(element, { boxes, edges }) {
    this.edges = edges;
    this.boxes = boxes.map(([op, name, first, status, seconds, isLong]) => {
      const kind = `box ${status}${isLong ? " long" : ""}`;
      const time = seconds > 1 ? make("i", {}, took(seconds)) : "";
      return make("a", { href: `#s${first}`, class: kind }, make("span", {}, op), make("b", {}, name), time);
    });
    this.lines = edges.map(() => document.createElementNS(SVG, "path"));
    this.picture = document.createElementNS(SVG, "svg");
    this.picture.append(...this.lines);
    this.place = make("div", {}, this.picture, ...this.boxes);
    element.append(this.place);
    if (this.arrange(BOX) > element.clientWidth) this.arrange(NARROW);
    this.boxes.forEach((box, at) => {
      for (const event of ["pointerenter", "focus"]) box.addEventListener(event, () => this.light(at));
      for (const event of ["pointerleave", "blur"]) box.addEventListener(event, () => this.light(null));
    });
  }

  // Places the boxes and returns the width of the graph.
  arrange(width) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 8, edgesep: 6, ranksep: 22, marginx: 1, marginy: 1 });
    for (const box of this.boxes) box.style.width = `${width}px`;
    this.boxes.forEach((box, at) => graph.setNode(at, { width, height: box.offsetHeight }));
    for (const [start, end] of this.edges) graph.setEdge(start, end, {});
    dagre.layout(graph);
    this.boxes.forEach((box, at) => {
      const node = graph.node(at);
      box.style.left = `${node.x - node.width / 2}px`;
      box.style.top = `${node.y - node.height / 2}px`;
    });
    this.edges.forEach(([start, end], at) =>
      this.lines[at].setAttribute("d", this.curve(graph.edge(start, end).points)),
    );
    const { width: whole, height } = graph.graph();
    for (const each of [this.picture, this.place])
      Object.assign(each.style, { width: `${whole}px`, height: `${height}px` });
    return whole;
  }

  // Returns a path through the midpoints between dagre's points. dagre's points become rounded corners.
  curve(points) {
    const [first, ...rest] = points.map(({ x, y }) => [Math.round(x), Math.round(y)]);
    const bends = rest
      .slice(0, -1)
      .map(([x, y], at) => `Q${x} ${y} ${(x + rest[at + 1][0]) / 2} ${(y + rest[at + 1][1]) / 2}`);
    return `M${first} ${bends.join("")}L${rest.at(-1)}`;
  }

  light(start) {
    const lit = new Set();
    if (start !== null)
      for (const [from, to] of [
        [0, 1],
        [1, 0],
      ]) {
        const reached = new Set([start]);
        for (const box of reached) for (const edge of this.edges) if (edge[from] === box) reached.add(edge[to]);
        for (const box of reached) lit.add(box);
      }
    this.place.classList.toggle("lit", start !== null);
    this.boxes.forEach((box, at) => box.classList.toggle("on", lit.has(at)));
    this.edges.forEach(([a, b], at) => this.lines[at].classList.toggle("on", lit.has(a) && lit.has(b)));
  }
}

for (const element of document.querySelectorAll("div.trunk"))
  unpack(element.querySelector("script")).then((data) => new Graph(element, data));
