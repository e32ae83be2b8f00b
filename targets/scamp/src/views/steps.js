"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const slider = document.getElementById("at");
const list = document.getElementById("list");
const registers = document.getElementById("registers");
const cards = new Map();

function element(name, parent, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

for (const name of data.registers) {
  const card = element("section", registers);
  element("h2", card, name);
  const canvas = element("canvas", card);
  canvas.width = data.width;
  canvas.height = data.height;
  const range = element("p", card);
  const kernel = element("div", card);
  cards.set(name, { card, canvas, range, kernel });
}

data.steps.forEach((step, index) => {
  const entry = element("li", list, step.text);
  entry.addEventListener("click", () => show(index));
});

// What a register holds after a step: what was written last.
function state(name, index) {
  for (let at = index; at >= 0; at--) {
    if (name in data.steps[at].writes) return { at, ...data.steps[at].writes[name] };
  }
  return null;
}

function paint(canvas, image) {
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(data.width, data.height);
  for (let at = 0; at < data.width * data.height; at++) {
    const grey = parseInt(image.substr(2 * at, 2), 16);
    pixels.data.set([grey, grey, grey, 255], 4 * at);
  }
  context.putImageData(pixels, 0, 0);
}

function tabulate(parent, kernel) {
  parent.replaceChildren();
  if (typeof kernel === "string") element("p", parent, kernel);
  else for (const part of kernel) {
    const table = element("table", parent);
    element("caption", table, part.of);
    part.rows.forEach((cells, row) => {
      const line = element("tr", table);
      cells.forEach((cell, column) => {
        const field = element("td", line, cell);
        if (row === part.centre[0] && column === part.centre[1]) field.className = "centre";
      });
    });
  }
}

function show(index) {
  slider.value = index;
  document.getElementById("count").textContent = `${index} of ${data.steps.length - 1}`;
  [...list.children].forEach((entry, at) => entry.classList.toggle("now", at === index));
  list.children[index].scrollIntoView({ block: "nearest" });
  for (const [name, { card, canvas, range, kernel }] of cards) {
    const held = state(name, index);
    card.hidden = held === null;
    card.classList.toggle("now", held !== null && held.at === index);
    if (held === null) continue;
    paint(canvas, held.image);
    range.textContent = held.range;
    tabulate(kernel, held.kernel);
  }
}

slider.max = data.steps.length - 1;
slider.addEventListener("input", () => show(Number(slider.value)));
document.addEventListener("keydown", (event) => {
  const now = Number(slider.value), last = data.steps.length - 1;
  const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  show(Math.min(Math.max(to, 0), last));
});
show(0);
