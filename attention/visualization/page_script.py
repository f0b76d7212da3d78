"""What the interactive page does: it draws what is chosen, and fetches nothing."""

SCRIPT = r"""
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = name => document.getElementById(name);
const state = { example: 0, place: 0, head: 0, token: 0 };
const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function draw(tag, attributes = {}, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// Numbers come as 16 bits between the least and the largest of a map.
function valuesOf(map) {
  if (map.values) return map.values;
  const bytes = Uint8Array.from(atob(map.data), c => c.charCodeAt(0));
  const whole = new DataView(bytes.buffer), number = bytes.length / 2, size = map.high - map.low;
  map.values = new Float32Array(number);
  for (let i = 0; i < number; i++)
    map.values[i] = map.low + whole.getUint16(2 * i, true) / 65535 * size;
  map.largest = Math.max(Math.abs(map.low), Math.abs(map.high)) || 1;
  return map.values;
}

// Head -1 is the mean of all.
function weightsOf(map, head) {
  const values = valuesOf(map), size = map.rows.length * map.columns.length;
  if (head >= 0) return values.subarray(head * size, (head + 1) * size);
  const mean = new Float32Array(size);
  values.forEach((value, i) => { mean[i % size] += value / map.names.length; });
  return mean;
}

const example = () => data.examples[state.example];
const map = () => example().maps[state.place];
const place = () => data.places[state.place];
const headName = head => head < 0 ? "mean of all heads" : map().names[head];
const short = text => text.length > 24 ? text.slice(0, 23) + "…" : text;
const within = (value, first, last) => Math.min(Math.max(value, first), last);
const number = (value, digits = 2) => value === null ? "–" : value.toFixed(digits);

function opacity(value, largest) { return Math.min(Math.abs(value) / largest, 1); }

function paint(node, value, largest) {
  const share = opacity(value, largest), hue = value < 0 ? "--minus" : "--plus";
  const percent = (100 * share).toFixed(1);
  node.style.background = `color-mix(in srgb, var(${hue}) ${percent}%, var(--ground))`;
  node.classList.toggle("strong", share >= 0.6);
}

// One choice out of several, by mouse or by arrow keys; only the chosen one takes Tab.
function group(holder, nodes, chosen, choose, step) {
  nodes.forEach((node, i) => {
    node.setAttribute("role", "radio");
    node.setAttribute("aria-checked", i === chosen);
    node.tabIndex = i === chosen ? 0 : -1;
    node.addEventListener("click", () => choose(i));
    node.addEventListener("keydown", event => {
      const last = nodes.length - 1;
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: last }[event.key];
      if (to !== undefined) choose(within(to, 0, last));
      else if (step && event.key in step) step[event.key]();
      else return;
      event.preventDefault();
      const now = holder.querySelector("[aria-checked=true]");
      if (now) now.focus();
    });
  });
  holder.replaceChildren(...nodes);
}

function showTokens() {
  const { rows, columns } = map(), weights = weightsOf(map(), state.head);
  const row = weights.subarray(state.token * columns.length, (state.token + 1) * columns.length);
  const largest = map().largest;
  group(byId("queries"), rows.map(text => make("button", { type: "button", class: "token" }, text)),
    state.token, token => update({ token }), {
      ArrowDown: () => moveHead(1), ArrowUp: () => moveHead(-1),
      PageDown: () => movePlace(1), PageUp: () => movePlace(-1) });
  byId("keys").replaceChildren(...columns.map((text, j) => {
    const share = make("span", { class: "share" }, number(row[j]));
    const node = make("span", { class: "token", role: "listitem" }, text, " ", share);
    paint(node, row[j], largest);
    return node;
  }));
  const order = [...row.keys()].sort((a, b) => Math.abs(row[b]) - Math.abs(row[a])).slice(0, 5);
  const list = order.map(j => `${columns[j]} ${number(row[j])}`).join(", ");
  byId("said").textContent = `${rows[state.token]}, ${headName(state.head)}: ${list}`;
}

// Cells of about one opacity as one path: few nodes for many cells.
function cells(weights, rows, columns, largest, width, height) {
  const paths = new Map(), levels = 32;
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
    const value = weights[i * columns + j];
    const level = Math.round(opacity(value, largest) * levels);
    if (!level) continue;
    const key = (value < 0 ? "minus " : "plus ") + level;
    const square = `M${j * width} ${i * height}h${width}v${height}h${-width}z`;
    paths.set(key, (paths.get(key) || "") + square);
  }
  return [...paths].map(([key, d]) => {
    const [hue, level] = key.split(" ");
    return draw("path", { class: hue, d, "fill-opacity": level / levels });
  });
}

function showHeads() {
  const one = map(), choices = one.names.length > 1 ? [-1, ...one.names.keys()] : [0];
  const nodes = choices.map(head => {
    const rows = one.rows.length, columns = one.columns.length;
    const picture = draw("svg", { viewBox: `0 0 ${columns} ${rows}`, "aria-hidden": "true",
      preserveAspectRatio: "none", "shape-rendering": "crispEdges" });
    picture.append(...cells(weightsOf(one, head), rows, columns, one.largest, 1, 1));
    const keys = head < 0 ? "" : `: ${number(one.measures[head][1], 1)} keys in effect`;
    return make("button", { type: "button", class: "head" }, picture, headName(head) + keys);
  });
  group(byId("heads"), nodes, choices.indexOf(state.head), i => update({ head: choices[i] }));
}

function showMap() {
  const { rows, columns, largest } = map(), weights = weightsOf(map(), state.head);
  const long = texts => Math.max(...texts.map(text => text.length), 1);
  const left = 10 + 7.5 * Math.min(long(rows), 24), top = 10 + 7.5 * Math.min(long(columns), 24);
  const size = within((byId("map").clientWidth - left - 2) / columns.length, 16, 36);
  const width = left + size * columns.length + 2, height = top + size * rows.length + 2;
  const picture = draw("svg", { class: "map", role: "img", width, height,
    viewBox: `0 0 ${width} ${height}`, "aria-label": description(weights) });
  const inside = draw("g", { transform: `translate(${left} ${top})`,
    "shape-rendering": "crispEdges" });
  inside.append(...cells(weights, rows.length, columns.length, largest, size, size));
  const whole = { width: size * columns.length, height: size * rows.length };
  inside.append(draw("rect", { class: "frame", ...whole }));
  const chosen = { x: 0, y: size * state.token, width: whole.width, height: size };
  inside.append(draw("rect", { class: "chosen", ...chosen }));
  picture.append(inside);
  rows.forEach((text, i) => picture.append(draw("text", { x: left - 6, "text-anchor": "end",
    y: top + size * (i + .5) + 4 }, short(text))));
  columns.forEach((text, j) => {
    const x = left + size * (j + .5) + 4, y = top - 6;
    picture.append(draw("text", { x, y, transform: `rotate(-90 ${x} ${y})` }, short(text)));
  });
  const cover = draw("rect", { class: "cell", fill: "transparent", x: left, y: top, ...whole });
  const tip = draw("title", {}, "");
  cover.append(tip);
  const at = event => {
    const box = picture.getBoundingClientRect(), scale = width / box.width;
    const i = Math.floor(((event.clientY - box.top) * scale - top) / size);
    const j = Math.floor(((event.clientX - box.left) * scale - left) / size);
    return [within(i, 0, rows.length - 1), within(j, 0, columns.length - 1)];
  };
  cover.addEventListener("mousemove", event => {
    const [i, j] = at(event);
    tip.textContent = `${rows[i]} → ${columns[j]}: ${number(weights[i * columns.length + j], 3)}`;
  });
  cover.addEventListener("click", event => update({ token: at(event)[0] }));
  picture.append(cover);
  byId("map").replaceChildren(picture);
  byId("largest").textContent = number(largest);
}

function description(weights) {
  const { rows, columns } = map(), { title, kind, axes } = place();
  let most = 0;
  weights.forEach((value, i) => { if (Math.abs(value) > Math.abs(weights[most])) most = i; });
  const row = rows[Math.floor(most / columns.length)], column = columns[most % columns.length];
  return `Heat map of ${title}, ${headName(state.head)}: ${kind}; rows: ${axes[0]}, ` +
    `columns: ${axes[1]}. Largest from ${row} to ${column}, ${number(weights[most])}.`;
}

function showTable() {
  const all = byId("whole").checked, one = place();
  const rows = all ? one.measures : map().measures;
  byId("measures").replaceChildren(...rows.map((values, head) => {
    const name = make("th", { scope: "row" }, map().names[head]);
    const cells = values.map(value => make("td", {}, number(value)));
    return make("tr", { "aria-current": head === state.head }, name, ...cells);
  }));
}

function showPlace() {
  const one = place();
  byId("what").textContent = [one.title, one.variant, one.kind].filter(text => text).join(" · ");
  byId("note").textContent = [one.note, one.about].filter(text => text).join(". ");
  byId("queries-are").textContent = one.axes[0];
  byId("keys-are").textContent = one.axes[1];
  byId("answer").textContent = example().answer || "(nothing)";
}

function moveHead(by) {
  const first = map().names.length > 1 ? -1 : 0, last = map().names.length - 1;
  update({ head: within(state.head + by, first, last) });
}

function movePlace(by) {
  update({ place: within(state.place + by, 0, data.places.length - 1) });
}

// What is chosen stays within what there is, and stands in the address, to be passed on.
function update(change) {
  Object.assign(state, change);
  state.example = within(state.example, 0, data.examples.length - 1);
  state.place = within(state.place, 0, data.places.length - 1);
  const first = map().names.length > 1 ? -1 : 0;
  state.head = within(state.head, first, map().names.length - 1);
  state.token = within(state.token, 0, map().rows.length - 1);
  valuesOf(map());
  byId("example").value = state.example;
  byId("place").value = state.place;
  showPlace(); showTokens(); showHeads(); showMap(); showTable();
  history.replaceState(null, "", "#" + new URLSearchParams(state));
}

function start() {
  const option = (text, value) => make("option", { value }, text);
  byId("example").append(...data.examples.map((one, i) => option(one.title, i)));
  byId("place").append(...data.places.map((one, i) => option(one.title, i)));
  byId("example").addEventListener("change", e => update({ example: +e.target.value, token: 0 }));
  byId("place").addEventListener("change", e => update({ place: +e.target.value }));
  byId("whole").addEventListener("change", showTable);
  addEventListener("resize", showMap);
  addEventListener("beforeprint", () => { document.querySelector("details").open = true; });
  const given = {};
  for (const [name, value] of new URLSearchParams(location.hash.slice(1)))
    if (name in state && Number.isInteger(+value)) given[name] = +value;
  update(given);
}
start();
"""
