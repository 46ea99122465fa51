"""A recording as one HTML file: the ring drawn, its messages as arrows, stepped through with the buttons.

The page needs nothing but itself: style, script and data are inside it.
"""

from __future__ import annotations

import json
from html import escape
from string import Template
from typing import Any

from watersmeet.lab.watch.recording import Holdings, Recording


def to_page(recording: Recording) -> str:
    """The page's text."""
    data = json.dumps({"nodes": list(recording.nodes), "frames": frames(recording)}, ensure_ascii=False)
    data = data.replace("<", "\\u003c")  # so that no text can end the script element
    title = escape(recording.title)
    return Template(_PAGE).substitute(title=title, style=_STYLE, data=data) + _SCRIPT + _END


def frames(recording: Recording) -> list[dict[str, Any]]:
    """The frames of the page in order: each event as it begins, then each of its messages."""
    shown: list[dict[str, Any]] = []
    for number, event in enumerate(recording.events, start=1):
        title = f"Event {number}: {event.title}"
        following = recording.events[number].before if number < len(recording.events) else recording.at_end
        # An event without messages may still have changed what its node keeps.
        start = event.before if event.steps else following
        shown.append({"event": title, "path": [event.node], "holdings": _plain(start)})
        shown += [
            {
                "event": title,
                "path": list(step.path),
                "kind": step.kind,
                "key": step.key,
                "text": step.text,
                "time_us": step.time_us,
                "holdings": _plain(step.holdings),
            }
            for step in event.steps
        ]
    return shown


def _plain(holdings: Holdings) -> dict[str, list[list[str]]]:
    return {str(node): [[kept.what, kept.text] for kept in here] for node, here in holdings.items()}


_STYLE = """
body { font: 15px/1.4 Helvetica, Arial, sans-serif; margin: 1.5em; color: #222; }
h1 { font-size: 1.25em; }
main { display: flex; flex-wrap: wrap; gap: 2em; align-items: flex-start; }
svg { width: 560px; max-width: 100%; height: auto; }
#controls { margin: .5em 0; } #at { width: 18em; vertical-align: middle; }
#event { font-weight: bold; max-width: 70em; } #message { min-height: 2.8em; }
#kept { border-collapse: collapse; font-size: 13px; }
#kept th, #kept td { border-top: 1px solid #ccc; padding: 2px 8px; text-align: left; vertical-align: top; }
#kept th { white-space: nowrap; }
.query { color: #b03a48; } .tuple { color: #1b6ca8; } .answer { color: #2e7d32; }
.new { font-weight: bold; background: #fff5cc; }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<h1>$title</h1>
<div id="controls">
<button id="previous">previous</button>
<button id="play">play</button>
<button id="next">next</button>
<input id="at" type="range" min="0" value="0" aria-label="step">
<span id="count"></span>
</div>
<div id="event"></div>
<div id="message"></div>
<main>
<svg id="ring" viewBox="-290 -290 580 580" role="img" aria-label="the ring"></svg>
<table id="kept"></table>
</main>
<p>Nodes stand in ring order, clockwise, drawn at equal distances. At each node: how many
<span class="query">queries</span>, <span class="tuple">tuples</span> and <span class="answer">answers</span>
sit there; the table names them, those that this step brought in bold.</p>
<script type="application/json" id="data">$data</script>
"""

_SCRIPT = """<script>
"use strict";
const { nodes, frames } = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const ring = find("ring");
const RADIUS = 200, NODE = 20;
const direction = new Map(nodes.map((node, n) => {
  const angle = 2 * Math.PI * n / nodes.length - Math.PI / 2;
  return [node, [Math.cos(angle), Math.sin(angle)]];
}));
let current = 0, timer = null;

function draw(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  ring.appendChild(element);
  return element;
}

function write(parent, name, text, look) {
  const element = document.createElement(name);
  element.textContent = text;
  if (look) element.className = look;
  parent.appendChild(element);
  return element;
}

function arrow(from, to) {
  const [x1, y1] = direction.get(from).map((part) => part * RADIUS);
  const [x2, y2] = direction.get(to).map((part) => part * RADIUS);
  const length = Math.hypot(x2 - x1, y2 - y1), ux = (x2 - x1) / length, uy = (y2 - y1) / length;
  const tx = x2 - ux * (NODE + 2), ty = y2 - uy * (NODE + 2);
  draw("line", { x1: x1 + ux * NODE, y1: y1 + uy * NODE, x2: tx - ux * 8, y2: ty - uy * 8,
    stroke: "#444", "stroke-width": 2.5 });
  const left = [tx - ux * 12 - uy * 6, ty - uy * 12 + ux * 6];
  const right = [tx - ux * 12 + uy * 6, ty - uy * 12 - ux * 6];
  const corners = [[tx, ty], left, right].map((point) => point.join(",")).join(" ");
  draw("polygon", { points: corners, fill: "#444" });
}

function around(node) {
  const [cx, cy] = direction.get(node).map((part) => part * RADIUS);
  draw("circle", { cx, cy, r: NODE + 5, fill: "none", stroke: "#444", "stroke-width": 2.5 });
}

function drawNode(node, frame) {
  const [ux, uy] = direction.get(node), on = frame.path.includes(node);
  const isTarget = node === frame.path[frame.path.length - 1];
  draw("circle", { cx: ux * RADIUS, cy: uy * RADIUS, r: NODE, stroke: "#444",
    fill: isTarget ? "#ffd966" : on ? "#fff2cc" : "#f4f4f4" });
  draw("text", { x: ux * RADIUS, y: uy * RADIUS + 5, "text-anchor": "middle", "font-size": 15 }, node);
  const counts = ["query", "tuple", "answer"].map((what) =>
    [what, (frame.holdings[node] || []).filter((kept) => kept[0] === what).length]);
  const shown = counts.filter(([, count]) => count);
  shown.forEach(([what, count], line) => {
    const many = count === 1 ? what : what === "query" ? "queries" : what + "s";
    draw("text", { x: ux * (RADIUS + 58), y: uy * (RADIUS + 48) + 14 * (line - (shown.length - 1) / 2) + 4,
      "text-anchor": "middle", "font-size": 12, fill: "currentColor", class: what }, count + " " + many);
  });
}

function list(frame, before) {
  const table = find("kept");
  table.replaceChildren();
  for (const node of nodes) {
    const here = frame.holdings[node] || [];
    if (!here.length) continue;
    const row = table.appendChild(document.createElement("tr"));
    write(row, "th", "node " + node);
    const cell = row.appendChild(document.createElement("td"));
    const known = (before.holdings[node] || []).map(String);
    for (const kept of here) {
      const isNew = before !== frame && !known.includes(String(kept));
      write(cell, "div", kept[0] + " " + kept[1], kept[0] + (isNew ? " new" : ""));
    }
  }
}

function show(number) {
  current = Math.max(0, Math.min(frames.length - 1, number));
  const frame = frames[current];
  ring.replaceChildren();
  draw("circle", { r: RADIUS, fill: "none", stroke: "#bbb", "stroke-dasharray": "4 4" });
  nodes.forEach((node) => drawNode(node, frame));
  for (let hop = 1; hop < frame.path.length; hop += 1) arrow(frame.path[hop - 1], frame.path[hop]);
  if (frame.kind && frame.path.length === 1) around(frame.path[0]);
  if (frame.kind) {
    const over = { "text-anchor": "middle", "paint-order": "stroke", stroke: "white", "stroke-width": 5 };
    draw("text", { ...over, "font-size": 15, "font-weight": "bold" }, frame.kind);
    draw("text", { ...over, "font-size": 14, y: 20 }, frame.key === null ? "" : frame.key);
  }
  find("event").textContent = frame.event;
  find("message").textContent = frame.kind
    ? frame.path.join(" \\u2192 ") + "  " + frame.kind + (frame.key === null ? "" : " [" + frame.key + "]")
      + ": " + frame.text
    : (frames[current + 1] || {}).kind ? "" : "No message.";
  find("count").textContent = "step " + (current + 1) + " of " + frames.length;
  find("at").value = current;
  list(frame, current ? frames[current - 1] : frame);
}

function stop() {
  clearInterval(timer);
  timer = null;
  find("play").textContent = "play";
}

function play() {
  if (timer !== null) return stop();
  if (current === frames.length - 1) show(0);
  find("play").textContent = "pause";
  timer = setInterval(() => current === frames.length - 1 ? stop() : show(current + 1), 1200);
}

find("at").max = frames.length - 1;
find("previous").onclick = () => { stop(); show(current - 1); };
find("next").onclick = () => { stop(); show(current + 1); };
find("play").onclick = play;
find("at").oninput = (event) => { stop(); show(Number(event.target.value)); };
document.onkeydown = (event) => {
  if (event.target.id === "at") return;
  if (event.key === "ArrowLeft") { stop(); show(current - 1); }
  if (event.key === "ArrowRight") { stop(); show(current + 1); }
};
show(Number(location.hash.slice(1)) - 1 || 0);
</script>
"""

_END = "</body>\n</html>\n"
