"use strict";

/**
 * Markdown as DOM nodes: headings, lists, quotes, tables, code, emphasis and links.
 *
 * Every text becomes a text node, so that HTML in it stays text, and links go to web and e-mail addresses only.
 */
function renderMarkdown(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(...readBlocks(text.replaceAll("\r\n", "\n").split("\n")));
  return fragment;
}

const FENCE = /^ {0,3}(```|~~~)/;
const HEADING = /^(#{1,6}) +(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?/;
const LIST_ITEM = /^( *)([-*+]|\d{1,9}[.)]) +(.*)$/;
const TABLE_LINE = /^\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?)?$/;
const INLINE = new RegExp(
  [
    "(`{1,3})(.{1,1000}?)\\1", // code
    "\\*\\*(.{1,1000}?)\\*\\*", // strong
    "\\*([^\\s*][^*\\n]{0,1000})(?<!\\s)\\*", // emphasis
    "~~(.{1,1000}?)~~",
    "\\[([^\\][\\n]{1,1000})\\]\\(([^\\s()]{1,2000})\\)", // a link
  ].join("|"),
);
const LINKED = /^(https?:\/\/|mailto:)/i;
const MAX_DEPTH = 8; // of quotes, lists and emphasis inside each other; what is deeper stays text

/** Return the nodes of these lines. */
function readBlocks(lines, depth = 0) {
  const nodes = [];
  for (let at = 0; at < lines.length; ) {
    const [node, next] = readBlock(lines, at, depth);
    if (node) nodes.push(node);
    at = next;
  }
  return nodes;
}

/** Return the block that begins at a line, and the line after it. */
function readBlock(lines, at, depth) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  if (FENCE.test(line)) return readCode(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return [withInline(`h${Math.min(heading[1].length + 2, 6)}`, heading[2].replace(/ #+ *$/, "")), at + 1];
  if (RULE.test(line)) return [document.createElement("hr"), at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < MAX_DEPTH && LIST_ITEM.test(line)) return readList(lines, at, depth);
  if (line.includes("|") && TABLE_LINE.test((lines[at + 1] || "").trim())) return readTable(lines, at);
  return readParagraph(lines, at);
}

/** A fence that is not closed yet goes to the end: the text may still be coming. */
function readCode(lines, at) {
  const fence = FENCE.exec(lines[at])[1];
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(fence)) end += 1;
  const pre = document.createElement("pre");
  const code = document.createElement("code");
  code.textContent = lines.slice(at + 1, end).join("\n");
  pre.tabIndex = 0; // it scrolls sideways
  pre.append(code);
  return [pre, end + 1];
}

function readQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const quote = document.createElement("blockquote");
  quote.append(...readBlocks(lines.slice(at, end).map((line) => line.replace(QUOTE, "")), depth + 1));
  return [quote, end];
}

function readList(lines, at, depth) {
  const [, indent, mark] = LIST_ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(mark);
  const list = document.createElement(isOrdered ? "ol" : "ul");
  if (isOrdered) list.start = Number.parseInt(mark, 10);
  let end = at;
  while (end < lines.length) {
    const item = LIST_ITEM.exec(lines[end]);
    if (!item || item[1].length !== indent.length || /\d/.test(item[2]) !== isOrdered) break;
    const inside = [item[3]];
    for (end += 1; end < lines.length && isInside(lines, end, indent.length); end += 1) {
      inside.push(lines[end].slice(indent.length + 2));
    }
    list.append(listItem(inside, depth));
  }
  return [list, end];
}

/** Whether a line belongs to an item of a list: it is indented, or empty before an indented one. */
function isInside(lines, at, indent) {
  const isIndented = (line) => line !== undefined && line.search(/\S/) > indent;
  return isIndented(lines[at]) || (!lines[at].trim() && isIndented(lines[at + 1]));
}

function listItem(lines, depth) {
  const item = document.createElement("li");
  const [first, ...rest] = readBlocks(lines, depth + 1);
  if (first?.tagName === "P") item.append(...first.childNodes);
  else if (first) item.append(first);
  item.append(...rest);
  return item;
}

function readTable(lines, at) {
  const table = document.createElement("table");
  const row = (line, kind) => {
    const cells = line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|");
    const tr = document.createElement("tr");
    tr.append(...cells.map((cell) => withInline(kind, cell.trim())));
    return tr;
  };
  table.append(row(lines[at], "th"));
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|"); end += 1) table.append(row(lines[end], "td"));
  return [table, end];
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && ![FENCE, HEADING, QUOTE, LIST_ITEM].some((kind) => kind.test(lines[end]))) {
    end += 1;
  }
  return [withInline("p", lines.slice(at, end).join("\n")), end];
}

function withInline(kind, text) {
  const element = document.createElement(kind);
  element.append(...readInline(text, 0));
  return element;
}

function readInline(text, depth) {
  const nodes = [];
  let rest = text;
  for (let found; depth < MAX_DEPTH && (found = INLINE.exec(rest)); rest = rest.slice(found.index + found[0].length)) {
    nodes.push(rest.slice(0, found.index), inlineElement(found, depth + 1));
  }
  return [...nodes, rest];
}

function inlineElement([whole, , code, strong, emphasis, struck, label, address], depth) {
  const kind = code ? "code" : strong ? "strong" : emphasis ? "em" : struck ? "del" : "a";
  if (kind === "a" && !LINKED.test(address)) return whole;
  const element = document.createElement(kind);
  if (kind === "code") element.textContent = code;
  else element.append(...readInline(strong || emphasis || struck || label, depth));
  if (kind === "a") Object.assign(element, { href: address, target: "_blank", rel: "noopener noreferrer" });
  return element;
}
