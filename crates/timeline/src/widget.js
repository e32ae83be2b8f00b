"use strict";
// Draws the timeline of an element from the data in it. All timelines of a page share the colours of
// kinds of events.
const timelineColours = new Map();
function timeline(root) {
const data = JSON.parse(root.querySelector("script").textContent);
const word = index => data.words[index];
const ROW = 26, AXIS = 22, KINDS = 40;
const part = name => root.querySelector("." + name);
const canvas = root.querySelector("canvas"), about = part("about"), tip = part("tip"), pen = canvas.getContext("2d");
const media = ["(prefers-color-scheme: dark)", "print"].map(query => window.matchMedia(query));
const colourOf = name => getComputedStyle(root).getPropertyValue("--" + name).trim();
const critical = new Set(data.critical);
const tracks = data.tracks.map(() => []);
data.events.forEach((event, index) => tracks[event[0]].push(index));
tracks.forEach(list => list.sort((a, b) => data.events[a][1] - data.events[b][1] || a - b));
for (const counter of data.counters) counter.most = counter.samples.reduce((most, sample) => Math.max(most, sample[1]), 0) || 1;
const whole = Math.max(data.total, 1);
let from = 0, to = whole, chosen = -1, width = 1, left = 170, paint = {};
// Events that are drawn as one are named after the first of their kinds.
const kind = index => word(data.events[index][3]).split(/[ ,]/)[0];
const times = new Map();
for (let at = 0; at < data.parts; at++) times.set(kind(at), (times.get(kind(at)) || 0) + data.events[at][2]);
const kinds = [...times].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, KINDS).map(([name]) => name);
for (const name of kinds) {
  const rank = timelineColours.size;
  if (!timelineColours.has(name)) timelineColours.set(name, "hsl(" + (210 + rank * 137.508) % 360 + " 60% " + [68, 78, 58][rank % 3] + "%)");
}
const own = new Set(kinds);
function colour(index) {
  if (index >= data.parts) return (index - data.parts) % 2 ? paint["next-part"] : paint.part;
  return own.has(kind(index)) ? timelineColours.get(kind(index)) : paint.other;
}
function legend() {
  const list = part("legend");
  list.textContent = "";
  const entry = (style, text) => {
    const item = list.appendChild(document.createElement("li"));
    Object.assign(item.appendChild(document.createElement("span")).style, style);
    item.append(text);
  };
  const short = name => name.length > 40 ? name.slice(0, 18) + "\u2026" + name.slice(-20) : name || "(no name)";
  kinds.forEach(name => entry({ background: timelineColours.get(name) }, short(name)));
  if (times.size > kinds.length) entry({ background: "var(--other)" }, times.size - kinds.length + " other kinds of events");
  if (data.parts < data.events.length) entry({ background: "linear-gradient(90deg, var(--part) 50%, var(--next-part) 50%)" }, "parts of the program, by turns");
  if (data.counters.length) entry({ background: "var(--counter)" }, "counters");
  if (data.critical.length) entry({ borderBottom: "3px solid var(--critical)" }, "line below: on the critical path");
  entry({ background: "var(--chosen)" }, "the chosen event, and arrows to it from what it waits for");
}
const x = time => left + (time - from) / (to - from) * (width - left);
const time = px => from + (px - left) / (width - left) * (to - from);
const end = index => data.events[index][1] + data.events[index][2];
// The first place from `low` on that the test holds for; it holds for all after it.
function search(low, high, test) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(middle)) high = middle; else low = middle + 1;
  }
  return low;
}
// What an event waits for. The dependencies of an event lie together.
function waitsOf(index) {
  const all = data.dependencies, found = [];
  for (let at = search(0, all.length, i => all[i][1] >= index); at < all.length && all[at][1] === index; at++) found.push([all[at][0], word(all[at][2])]);
  return found;
}
// The text without its middle, as long as there is room.
function fitted(text, room) {
  if (pen.measureText(text).width <= room) return text;
  const cut = count => text.slice(0, Math.ceil(count / 2)) + "\u2026" + text.slice(text.length - Math.floor(count / 2));
  const most = search(0, text.length, count => pen.measureText(cut(count)).width > room);
  return most > 4 ? cut(most - 1) : "";
}
function drawEvent(index) {
  const [track, start, , name] = data.events[index], y = AXIS + track * ROW;
  const first = Math.max(x(start), left), last = Math.max(Math.min(x(end(index)), width), first + 1);
  pen.fillStyle = index === chosen ? paint.chosen : colour(index);
  pen.fillRect(first, y + 3, last - first, ROW - 8);
  if (critical.has(index)) { pen.fillStyle = paint.critical; pen.fillRect(first, y + ROW - 5, last - first, 3); }
  if (last - first > 34) { pen.fillStyle = paint["on-event"]; pen.fillText(fitted(word(name), last - first - 6), first + 3, y + 16); }
  return last;
}
// Events of a track do not overlap. After one is drawn, those that end within half a pixel are skipped.
function drawTrack(track) {
  const list = tracks[track];
  pen.fillStyle = paint.ink;
  pen.fillText(fitted(data.tracks[track], left - 10), 4, AXIS + track * ROW + 17);
  let at = search(0, list.length, i => end(list[i]) >= from);
  while (at < list.length && data.events[list[at]][1] <= to) {
    const next = time(drawEvent(list[at]) + 0.5);
    at = search(at + 1, list.length, i => end(list[i]) > next);
  }
}
function drawCounter(counter, row) {
  const bottom = AXIS + (data.tracks.length + row) * ROW + ROW - 3;
  pen.fillStyle = paint.ink;
  pen.fillText(fitted(counter.name + " [" + counter.unit + "] max " + counter.most, left - 10), 4, bottom - 6);
  pen.fillStyle = paint.counter;
  const samples = counter.samples;
  // Of the samples within a pixel the highest is drawn.
  let peak = 0;
  for (let at = Math.max(search(0, samples.length, i => samples[i][0] > from) - 1, 0); at < samples.length && samples[at][0] < to; at++) {
    const first = Math.max(x(samples[at][0]), left);
    const last = Math.min(at + 1 < samples.length ? x(samples[at + 1][0]) : x(data.total), width);
    peak = Math.max(peak, samples[at][1]);
    if (Math.floor(last) === Math.floor(first) && at + 1 < samples.length) continue;
    const column = (first, width, value) => pen.fillRect(first, bottom - value / counter.most * (ROW - 6), width, value / counter.most * (ROW - 6));
    column(Math.floor(first), 1, peak);
    if (last > first) column(first, last - first, samples[at][1]);
    peak = 0;
  }
}
function drawArrows() {
  pen.strokeStyle = pen.fillStyle = paint.chosen;
  for (const [source] of waitsOf(chosen)) {
    const target = data.events[chosen];
    const head = [Math.max(x(target[1]), left), AXIS + target[0] * ROW + ROW / 2];
    pen.beginPath();
    pen.moveTo(Math.max(x(end(source)), left), AXIS + data.events[source][0] * ROW + ROW / 2);
    pen.lineTo(...head);
    pen.stroke();
    pen.beginPath();
    pen.arc(...head, 3, 0, 7);
    pen.fill();
  }
}
function drawAxis(height) {
  pen.fillStyle = paint.ink;
  pen.fillText(data.unit, 4, 14);
  const ticks = Math.max(Math.min(Math.floor((width - left) / 90), 8), 1);
  for (let tick = 0; tick <= ticks; tick++) {
    const at = from + (to - from) * tick / ticks, label = String(Math.round(at));
    pen.fillStyle = paint.ink;
    pen.fillText(label, Math.min(x(at), width - pen.measureText(label).width - 2), 14);
    pen.fillStyle = paint.line;
    pen.fillRect(x(at), AXIS, 1, height);
  }
}
function draw() {
  // What is hidden has no width, and is drawn when it is shown.
  if (!canvas.clientWidth) return;
  const scale = window.devicePixelRatio || 1, height = AXIS + (data.tracks.length + data.counters.length) * ROW + 4;
  width = canvas.clientWidth;
  left = Math.min(170, width * 0.3);
  for (const name of ["ink", "line", "critical", "chosen", "counter", "part", "next-part", "other", "on-event"]) paint[name] = colourOf(name);
  canvas.style.height = height + "px";
  canvas.width = width * scale;
  canvas.height = height * scale;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px sans-serif";
  drawAxis(height);
  tracks.forEach((_, track) => drawTrack(track));
  data.counters.forEach(drawCounter);
  if (chosen >= 0) {
    if (data.events[chosen][1] <= to && end(chosen) >= from) drawEvent(chosen);
    drawArrows();
  }
}
const name = index => word(data.events[index][3]) + " on " + data.tracks[data.events[index][0]];
function describe(index) {
  const [lane, start, duration, title, more] = data.events[index];
  const path = critical.has(index) ? "\n  on the critical path" : "";
  const what = word(more).startsWith(word(title)) ? word(more) : (word(title) + " " + word(more)).trim();
  return what + "\n  " + data.tracks[lane] + ": " + start + " to " + (start + duration) + ", " + duration + " " + data.unit + path;
}
// Everything that ends before an event can start: what it waits for, and the event before it on its
// track. The last of them to end is why it starts then.
function causesOf(index) {
  const [track, start] = data.events[index], list = tracks[track], causes = waitsOf(index);
  const place = list.indexOf(index);
  if (place > 0 && index < data.parts) causes.push([list[place - 1], "order"]);
  const ready = ([source]) => Math.min(end(source), start);
  return causes.sort((a, b) => ready(b) - ready(a));
}
function show() {
  about.textContent = chosen < 0 ? "" : describe(chosen) + "\n";
  if (chosen < 0) return;
  const causes = causesOf(chosen), list = document.createElement("ul");
  causes.forEach(([source, why], rank) => {
    const button = document.createElement("button");
    button.type = "button";
    const verb = why === "order" ? "follows " : "waits for ";
    const ends = why === "order" ? ", which ends at " : " (" + why + "), which ends at ";
    button.textContent = verb + name(source) + ends + end(source) + (rank ? "" : ": why it starts then");
    button.addEventListener("click", () => { choose(source); draw(); canvas.focus({ preventScroll: true }); });
    list.appendChild(document.createElement("li")).appendChild(button);
  });
  if (causes.length) about.append(list);
  else about.append(chosen < data.parts ? "  waits for nothing" : "");
}
function choose(index) {
  chosen = index;
  if (index >= 0) {
    // A chosen event that is not in sight is moved there.
    const [, start, duration] = data.events[index];
    if (end(index) < from || start > to) move(start + duration / 2 - (from + to) / 2);
  }
  show();
}
function move(by) {
  const shift = Math.min(Math.max(by, -from), whole - to);
  from += shift; to += shift;
}
function zoom(at, factor) {
  from = Math.max(0, at - (at - from) * factor);
  to = Math.min(whole, at + (to - at) * factor);
  if (to - from < 4) to = from + 4;
}
// The event at a place of the canvas; -1 where there is none.
function eventAt(px, py) {
  const list = tracks[Math.floor((py - AXIS) / ROW)] || [], at = time(px), near = (to - from) / width * 2;
  const hit = list[search(0, list.length, i => end(list[i]) + near >= at)];
  return px >= left && hit !== undefined && data.events[hit][1] - near <= at ? hit : -1;
}
// What is at a place of the canvas, in words.
function wordsAt(px, py) {
  const row = Math.floor((py - AXIS) / ROW), counter = data.counters[row - data.tracks.length];
  if (row < 0) return "";
  if (px < left) return counter ? counter.name : data.tracks[row] || "";
  if (counter) {
    const at = time(px), last = search(0, counter.samples.length, i => counter.samples[i][0] > at) - 1;
    const value = last < 0 ? 0 : counter.samples[last][1];
    return counter.name + ": " + value + " " + counter.unit + " at " + Math.round(at) + " " + data.unit;
  }
  const hit = eventAt(px, py);
  return hit < 0 ? "" : describe(hit);
}
// The neighbour of the chosen event: the next or the one before it on its track, or the nearest one of
// another track.
function neighbour(along, across) {
  const filled = tracks.map((list, track) => [list, track]).filter(([list]) => list.length);
  if (!filled.length) return -1;
  if (chosen < 0) return filled[0][0][0];
  const [track, start] = data.events[chosen], list = tracks[track];
  if (along) return list[Math.min(Math.max(list.indexOf(chosen) + along, 0), list.length - 1)];
  const row = filled.findIndex(([, other]) => other === track) + across;
  const [other] = filled[Math.min(Math.max(row, 0), filled.length - 1)];
  if (other === list) return chosen;
  return other[Math.min(search(0, other.length, i => end(other[i]) > start), other.length - 1)];
}
const middle = () => chosen < 0 ? (from + to) / 2 : data.events[chosen][1] + data.events[chosen][2] / 2;
const actions = {
  in: () => zoom(middle(), 0.5), out: () => zoom(middle(), 2), all: () => { from = 0; to = whole; },
  back: () => move((from - to) / 2), on: () => move((to - from) / 2),
};
root.querySelectorAll("[data-do]").forEach(button => button.addEventListener("click", () => { actions[button.dataset.do](); draw(); }));
const keys = {
  ArrowLeft: () => choose(neighbour(-1, 0)), ArrowRight: () => choose(neighbour(1, 0)),
  ArrowUp: () => choose(neighbour(0, -1)), ArrowDown: () => choose(neighbour(0, 1)),
  Enter: () => { const cause = chosen >= 0 && causesOf(chosen)[0]; if (cause) choose(cause[0]); },
  Escape: () => choose(-1), Home: actions.all, "+": actions.in, "=": actions.in, "-": actions.out,
};
canvas.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
  draw();
});
// The wheel zooms where the canvas was chosen: elsewhere it scrolls the page.
canvas.addEventListener("wheel", event => {
  if (document.activeElement !== canvas && !event.ctrlKey) return;
  event.preventDefault();
  zoom(time(event.offsetX), event.deltaY > 0 ? 1.25 : 0.8);
  draw();
}, { passive: false });
// Pointers that are down, by their numbers: one moves, two zoom.
const down = new Map();
let moved = false;
canvas.addEventListener("pointerdown", event => { moved = false; down.set(event.pointerId, event.offsetX); });
for (const kind of ["pointerup", "pointercancel"]) window.addEventListener(kind, event => down.delete(event.pointerId));
canvas.addEventListener("pointermove", event => {
  const at = event.offsetX, before = down.get(event.pointerId);
  const words = before === undefined && event.pointerType === "mouse" ? wordsAt(at, event.offsetY) : "";
  tip.style.display = words ? "block" : "none";
  tip.textContent = words;
  tip.style.left = Math.max(0, Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = event.clientY + 16 + "px";
  if (before === undefined || before === at) return;
  moved = true;
  const other = [...down].find(([id]) => id !== event.pointerId);
  if (other) zoom(time((at + other[1]) / 2), Math.abs(before - other[1]) / Math.max(Math.abs(at - other[1]), 1));
  else move(time(before) - time(at));
  down.set(event.pointerId, at);
  draw();
});
canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
canvas.addEventListener("click", event => {
  const hit = eventAt(event.offsetX, event.offsetY);
  if (hit < 0 || moved) return;
  choose(hit);
  draw();
});
new ResizeObserver(draw).observe(canvas);
media.forEach(query => query.addEventListener("change", draw));
window.addEventListener("beforeprint", draw);
legend();
}
document.querySelectorAll(".timeline").forEach(timeline);
