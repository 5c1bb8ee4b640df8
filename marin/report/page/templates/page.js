"use strict";
document.documentElement.classList.add("scripted");

// Returns an element with attributes and content. A string stays text, never HTML.
const make = (name, attributes = {}, ...inside) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
};

// Returns the data of a script element: JSON, or for long data a string with base64 of gzipped JSON.
const unpack = async (element) => {
  const value = JSON.parse(element.textContent);
  if (typeof value !== "string") return value;
  const bytes = Uint8Array.from(atob(value), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};

const took = (seconds) => {
  if (seconds === null) return "";
  if (seconds < 60) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
};
