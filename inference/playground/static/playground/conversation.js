"use strict";

/* How a conversation is shown: messages, tokens with their probabilities, and calls of tools. */

function made(kind, classes, text) {
  const place = document.createElement(kind);
  place.className = classes;
  place.textContent = text;
  return place;
}

function makeButton(text, name, onClick) {
  const button = made("button", "quiet small", text);
  button.type = "button";
  button.ariaLabel = name;
  button.addEventListener("click", onClick);
  return button;
}

/** Show the messages. `on` has `edit(index)`, `regenerate()` and `giveResults(results)`. */
function showConversation(messages, on) {
  element("output").replaceChildren(...messages.map((message, at) => messageTurn(message, at, messages, on)));
}

function messageTurn(message, at, messages, on) {
  const turn = made("div", "turn", "");
  const isLast = at === messages.length - 1;
  if (message.role === "user") {
    turn.append(made("div", "said user", message.content));
    turn.append(turnActions(makeButton("Edit", `Edit message ${at + 1}`, () => on.edit(at))));
  } else if (message.role === "tool") {
    turn.append(toolResult(message.content));
  } else {
    turn.append(...answerParts(message));
    if (isLast && message.tool_calls) turn.append(resultForm(message.tool_calls, on.giveResults));
    else if (isLast) turn.append(turnActions(makeButton("Regenerate", "Regenerate this answer", on.regenerate)));
  }
  return turn;
}

function turnActions(...buttons) {
  const actions = made("div", "turn-actions", "");
  actions.append(...buttons);
  return actions;
}

function answerParts(message) {
  const calls = (message.tool_calls || []).map((call) => toolCall(call.function));
  if (!message.content) return calls;
  const place = made("div", "said assistant", "");
  fillAnswer(place, message.content, message.tokens);
  return [place, ...calls];
}

/** Write an answer to its place: its tokens where their probabilities are asked for, else its Markdown. */
function fillAnswer(place, text, tokens) {
  const showsTokens = element("probabilities").checked && tokens?.length;
  if (showsTokens) place.replaceChildren(...tokens.map(tokenSpan));
  else if (place.classList.contains("plain")) place.textContent = text;
  else place.replaceChildren(renderMarkdown(text));
  place.classList.toggle("tokens", Boolean(showsTokens));
}

/* Tokens */

function tokenSpan({ token, logprob, top_logprobs: others }) {
  const span = made("span", `token likely-${Math.min(4, Math.floor(5 * Math.exp(logprob)))}`, token);
  span.tabIndex = 0;
  span.addEventListener("focus", () => showToken(token, logprob, others));
  span.addEventListener("mouseenter", () => showToken(token, logprob, others));
  span.addEventListener("keydown", moveToken);
  return span;
}

/** Say how probable a token was, and which others were. */
function showToken(token, logprob, others) {
  const said = (one) => `“${one.token.replaceAll("\n", "⏎")}” ${percent(one.logprob)}`;
  const rest = others.filter((other) => other.token !== token).map(said);
  show(element("token-detail"), [said({ token, logprob }), ...rest].join("  ·  "));
}

function percent(logprob) {
  const share = 100 * Math.exp(logprob);
  return `${share.toFixed(share < 10 ? 1 : 0)} %`;
}

/** The arrow keys go from token to token. */
function moveToken(event) {
  const next = { ArrowRight: "nextElementSibling", ArrowLeft: "previousElementSibling" }[event.key];
  if (!next) return;
  event.preventDefault();
  event.target[next]?.focus();
}

/* Tools */

function toolCall({ name, arguments: given }) {
  const card = made("div", "tool", "");
  const pre = made("pre", "", indented(given));
  pre.tabIndex = 0; // it scrolls sideways
  card.append(made("b", "", `Calls ${name}`), pre);
  return card;
}

function indented(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // it was stopped in the middle
  }
}

function toolResult(text) {
  const card = made("div", "tool", "");
  card.append(made("b", "", "Result"), made("pre", "", text));
  return card;
}

/** A form in which the user writes what the tools return. */
function resultForm(calls, giveResults) {
  const form = made("form", "tool", "");
  const fields = calls.map((call, at) => {
    const label = made("label", "", `Result of ${call.function.name}`);
    const field = document.createElement("textarea");
    field.rows = 2;
    field.required = true;
    field.id = label.htmlFor = `result-${at}`;
    form.append(label, field);
    return field;
  });
  const button = made("button", "", "Return the results");
  form.append(button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    giveResults(calls.map((call, at) => ({ role: "tool", tool_call_id: call.id, content: fields[at].value })));
  });
  return form;
}

/* The answer that is coming */

class Answer {
  constructor(place) {
    this.place = place;
    this.text = "";
    this.tokens = [];
    this.drawing = 0;
    place.classList.add("running");
  }

  add(text, logprobs) {
    this.text += text;
    if (logprobs) this.tokens.push(...logprobs.content);
    if (!this.drawing) this.drawing = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.drawing = 0;
    const output = element("output");
    const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
    fillAnswer(this.place, this.text, this.tokens);
    if (atEnd) output.scrollTop = output.scrollHeight;
  }

  finish() {
    cancelAnimationFrame(this.drawing);
    this.draw();
    this.place.classList.remove("running");
  }
}

/** Figures of an answer: time to the first token, rate, tokens, end. */
class Meter {
  start() {
    this.began = performance.now();
    this.tokens = 0;
  }

  count() {
    this.tokens += 1;
    const took = performance.now() - this.began;
    if (this.tokens === 1) element("first-token").textContent = `${Math.round(took)} ms`;
    element("tokens").textContent = String(this.tokens);
    element("rate").textContent = ((1000 * this.tokens) / took).toFixed(1);
  }

  show(end) {
    element("tokens").textContent = `${end.usage.prompt_tokens} in, ${end.usage.completion_tokens} out`;
    element("ended").textContent = end.finish_reason;
  }
}
