"use strict";
// Chooses a machine, a node, an image and a value, and sorts tables.
(() => {
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const step = (list, at, by) => list[(at + by + list.length) % list.length];
// Tabs: one panel is shown; arrows choose the neighbours.
const tabs = all("[role=tab]");
function open(tab) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    document.getElementById(other.getAttribute("aria-controls")).classList.toggle("open", chosen);
  }
}
tabs.forEach((tab, at) => {
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = step(tabs, at, by);
    open(next);
    next.focus();
  });
});
if (tabs.length) open(tabs[0]);
// Nodes: what is known of the chosen one stands below the picture.
for (const network of all(".network")) {
  const nodes = all(".node", network), told = network.nextElementSibling;
  function choose(node) {
    for (const other of nodes) other.classList.toggle("chosen", other.dataset.node === node.dataset.node);
    nodes.forEach(other => other.setAttribute("tabindex", other === node ? "0" : "-1"));
    told.textContent = node.querySelector("title").textContent;
  }
  nodes.forEach((node, at) => {
    node.addEventListener("click", () => choose(node));
    node.addEventListener("keydown", event => {
      const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
      if (by) { const next = step(nodes, at, by); choose(next); next.focus(); }
      else if (event.key === "Enter" || event.key === " ") choose(node);
      else return;
      event.preventDefault();
    });
  });
}
// Tables: a click on a heading sorts by the column, another one the other way round.
const exact = cell => cell.title || cell.textContent;
const number = text => text === "" ? NaN : Number(text.replace(/ %$/, ""));
function sort(table, column, heading) {
  const down = heading.getAttribute("aria-sort") !== "descending";
  const rows = [...table.rows].slice(1), text = row => exact(row.cells[column]);
  const isNumber = heading.classList.contains("number");
  const compare = isNumber ? (a, b) => number(text(a)) - number(text(b)) : (a, b) => text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0;
  // What is not there stands last in any order.
  const empty = row => text(row) === "" || isNumber && isNaN(number(text(row)));
  rows.sort((a, b) => empty(a) - empty(b) || (down ? compare(b, a) : compare(a, b)));
  for (const other of table.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  rows.forEach(row => row.parentNode.append(row));
}
for (const table of all(".sortable table")) {
  [...table.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, column, heading));
    heading.append(button);
  });
}
// Feature maps: those of the chosen image and value.
const choices = ["image", "value"].map(id => document.getElementById(id));
if (choices[0]) {
  const show = () => all(".maps").forEach(maps => {
    maps.classList.toggle("open", maps.dataset.image === choices[0].value && maps.dataset.value === choices[1].value);
  });
  choices.forEach(choice => choice.addEventListener("change", show));
  show();
}
})();
