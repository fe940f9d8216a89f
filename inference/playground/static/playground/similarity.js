"use strict";

/** Return the cosine similarity of each pair of vectors, as rows. */
function similarities(vectors) {
  const lengths = vectors.map((vector) => Math.sqrt(dot(vector, vector)) || 1);
  return vectors.map((one, i) => vectors.map((other, j) => dot(one, other) / (lengths[i] * lengths[j])));
}

function dot(one, other) {
  return one.reduce((sum, value, at) => sum + value * other[at], 0);
}

/**
 * Return points of the plane whose distances are near to those that the similarities say.
 *
 * Classical multidimensional scaling: the two greatest principal axes of the doubly centered matrix.
 */
function planePoints(rows) {
  const means = rows.map((row) => row.reduce((sum, value) => sum + value, 0) / row.length);
  const mean = means.reduce((sum, value) => sum + value, 0) / means.length;
  let matrix = rows.map((row, i) => row.map((value, j) => value - means[i] - means[j] + mean));
  const axes = [0, 1].map(() => {
    const { value, vector } = principalAxis(matrix);
    matrix = matrix.map((row, i) => row.map((cell, j) => cell - value * vector[i] * vector[j]));
    return vector.map((part) => part * Math.sqrt(Math.max(value, 0)));
  });
  return rows.map((_, i) => [axes[0][i], axes[1][i]]);
}

/** Return the greatest eigenvalue and its unit vector, by power iteration. */
function principalAxis(matrix) {
  let vector = matrix.map((_, i) => Math.cos(i + 1)); // any start that is not orthogonal to the axis
  let value = 0;
  for (let round = 0; round < 200; round += 1) {
    const next = matrix.map((row) => dot(row, vector));
    value = Math.sqrt(dot(next, next));
    if (value < 1e-9) return { value: 0, vector: vector.map(() => 0) };
    vector = next.map((part) => part / value);
  }
  return { value, vector };
}

const SVG = "http://www.w3.org/2000/svg";

function svgElement(kind, attributes, text = "") {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

/** A map of sentences: the nearer two numbers, the more similar their sentences. The table has the exact figures. */
function similarityMap(sentences, vectors) {
  const rows = similarities(vectors);
  const map = svgElement("svg", { viewBox: "-120 -80 240 160", class: "map", role: "img" });
  map.setAttribute("aria-label", "Map of the sentences. The table below has its figures.");
  const points = planePoints(rows);
  const furthest = Math.max(...points.flat().map(Math.abs)) || 1;
  for (const [at, [x, y]] of points.entries()) {
    const [left, top] = [(x / furthest) * 105, (y / furthest) * 65];
    const point = svgElement("g", { transform: `translate(${left.toFixed(1)} ${top.toFixed(1)})` });
    point.append(
      svgElement("title", {}, sentences[at]),
      svgElement("circle", { r: 9 }),
      svgElement("text", { "text-anchor": "middle", "dominant-baseline": "central" }, String(at + 1)),
    );
    map.append(point);
  }
  return [map, sentenceList(sentences), similarityTable(rows)];
}

function sentenceList(sentences) {
  const list = document.createElement("ol");
  for (const sentence of sentences) list.append(made("li", "", sentence));
  return list;
}

function similarityTable(rows) {
  const table = document.createElement("table");
  table.append(made("caption", "", "Cosine similarity"));
  const head = document.createElement("tr");
  head.append(document.createElement("td"), ...rows.map((_, at) => made("th", "", String(at + 1))));
  table.append(head);
  for (const [at, row] of rows.entries()) {
    const line = document.createElement("tr");
    const cells = row.map((value) => made("td", `near-${Math.max(0, Math.min(4, Math.floor(value * 5)))}`, value.toFixed(2)));
    line.append(made("th", "", String(at + 1)), ...cells);
    table.append(line);
  }
  const frame = made("div", "frame", "");
  frame.tabIndex = 0; // it scrolls sideways
  frame.append(table);
  return frame;
}

/** The documents in the order of their relevance, each with a bar. */
function rankedDocuments(documents, results) {
  const list = made("ol", "ranked", "");
  for (const { index, relevance_score: score } of results) {
    const item = made("li", "", "");
    const bar = document.createElement("meter");
    bar.value = Math.max(0, Math.min(1, score));
    bar.ariaLabel = "Relevance";
    item.append(made("span", "", documents[index]), bar, made("b", "", score.toFixed(3)));
    list.append(item);
  }
  return list;
}
