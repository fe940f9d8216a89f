"use strict";

const element = (id) => document.getElementById(id);
const STORED = "stoa-playground-token";
const NOT_AUTHENTICATED = 4401;
const WHOLE = ["max_tokens", "top_k", "seed"];
const PARAMETERS = ["max_tokens", "temperature", "top_p", "top_k", "repeat_penalty", "seed"];
const HINTS = {
  chat: "Ask something below. The conversation goes through the model's chat template.",
  complete: "Begin a text below. The model goes on where it ends.",
  respond: "Ask something below, and cut the connection while the answer comes. The rest follows by another connection.",
};

const EXAMPLE = "Hello";

const state = { socket: null, token: null, messages: [], asked: null, running: null, stream: null, count: 0 };

/* Signing in */

async function signIn(token) {
  state.token = token;
  show(element("sign-in-problem"), null);
  try {
    const user = await connect();
    sessionStorage.setItem(STORED, token);
    element("status").textContent = user.username;
    await listModels();
    element("sign-in").hidden = true;
    element("workbench").hidden = element("sign-out").hidden = false;
    element("key-form").reset();
    element("login-form").reset();
    element("prompt").focus();
  } catch (problem) {
    signOut(problem.message);
  }
}

function signOut(why) {
  sessionStorage.removeItem(STORED);
  state.token = null;
  state.socket?.close();
  state.socket = null;
  clear();
  element("status").textContent = "Not signed in";
  element("workbench").hidden = element("sign-out").hidden = true;
  element("sign-in").hidden = false;
  show(element("sign-in-problem"), why);
  element("key").focus();
}

async function login(email, password, otp) {
  const body = JSON.stringify({ username: email, password, otp });
  const answer = await fetch("/auth/login", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error.message);
  return said.token;
}

function connect() {
  const url = location.origin.replace("http", "ws") + "/ws";
  const socket = new ModelSocket(url, (code) => {
    if (socket !== state.socket) return;
    state.socket = null;
    if (code === NOT_AUTHENTICATED && state.token) signOut("Sign in again: the credential is no longer good.");
  });
  state.socket = socket;
  return socket.signIn(state.token);
}

async function listModels() {
  const answer = await fetch("/models", { headers: { Authorization: `Bearer ${state.token}` } });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error.message);
  const writers = said.models.filter((model) => model.capabilities.includes("text-generation"));
  writers.sort((one, other) => other.loaded - one.loaded);
  element("model").replaceChildren(
    ...writers.map((model) => new Option(model.loaded ? model.id : `${model.id} (not loaded)`, model.id)),
  );
  if (!writers.length) throw new Error("There is no model that writes text.");
  render();
}

/* What is asked */

function mode() {
  return document.querySelector("input[name=mode]:checked").value;
}

function request(text, turns = state.messages) {
  const asked = { model: element("model").value };
  if (mode() === "respond") return responseRequest(text);
  if (mode() === "chat") {
    const system = element("system").value.trim();
    const before = system ? [{ role: "system", content: system }] : [];
    asked.messages = [...before, ...turns, { role: "user", content: text }];
  } else {
    asked.prompt = text;
  }
  for (const name of PARAMETERS) {
    const given = Number(element(name).value || element(name).placeholder); // routes differ in what they assume
    if (!Number.isNaN(given)) asked[name] = WHOLE.includes(name) ? Math.trunc(given) : given;
  }
  const stops = element("stop_at").value.split("\n").filter(Boolean);
  if (stops.length) asked.stop = stops;
  return asked;
}

/** The body of /v1/responses, which has names of its own. */
function responseRequest(text) {
  const asked = { model: element("model").value, input: text };
  const system = element("system").value.trim();
  if (system) asked.instructions = system;
  for (const name of PARAMETERS) {
    const given = element(name).value;
    if (given !== "") asked[name === "max_tokens" ? "max_output_tokens" : name] = Number(given);
  }
  const stops = element("stop_at").value.split("\n").filter(Boolean);
  if (stops.length) asked.stop = stops;
  return asked;
}

/** What Send would send; while nothing is typed, what was sent last. */
function shown() {
  const text = element("prompt").value;
  return text || !state.asked ? request(text || EXAMPLE) : request(state.asked.text, state.asked.turns);
}

async function ask() {
  const text = element("prompt").value;
  if (state.running || !text.trim() || !element("parameters").reportValidity()) return;
  const asked = request(text);
  const isChat = Boolean(asked.messages);
  const conversation = state.messages; // another one after `clear`
  const id = `try-${++state.count}`;
  const meter = new Meter();
  state.asked = { text, turns: [...conversation] };
  show(element("problem"), null);
  show(element("connection"), null);
  const answer = new Answer(mode() === "complete" ? sayInOne(text) : sayInTurn(text));
  begin(id);
  if (mode() !== "complete") element("prompt").value = "";
  try {
    const add = (token) => {
      meter.count();
      answer.add(token);
    };
    const end = mode() === "respond" ? await respond(asked, meter, add) : await generate(id, asked, meter, add);
    answer.finish();
    if (isChat) conversation.push({ role: "user", content: text }, { role: "assistant", content: answer.text });
    meter.show(end);
  } catch (problem) {
    answer.finish();
    if (conversation !== state.messages) return;
    show(element("problem"), problem.message);
    if (!element("prompt").value) element("prompt").value = text;
    if (!answer.text && element("prompt").value === text) answer.remove(); // the words are below again
  } finally {
    begin(null);
  }
}

async function generate(id, asked, meter, add) {
  if (!state.socket?.isOpen) await connect();
  meter.start();
  return state.socket.generate(id, asked, add);
}

/** A response, whose connection a button cuts. Answers its end as the socket would. */
async function respond(asked, meter, add) {
  const stream = (state.stream = new ResponseStream(state.token));
  meter.start();
  element("cut").hidden = false;
  try {
    const final = await stream.run(asked, {
      text: add,
      cut: (seen) => show(element("connection"), `Cut after event ${seen}. The response goes on.`),
      resumed: (next, took) => show(element("connection"), `Resumed at event ${next} after ${Math.round(took)} ms.`),
    });
    if (final.status === "failed") throw new Error(final.error.message);
    const usage = final.usage || { input_tokens: 0, output_tokens: meter.tokens };
    return {
      finish_reason: final.status === "incomplete" ? "length" : final.status,
      usage: { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens },
    };
  } finally {
    element("cut").hidden = true;
    state.stream = null;
  }
}

function stop() {
  if (state.stream) state.stream.cancel();
  else if (state.running) state.socket?.cancel(state.running);
}

/* What is shown */

class Answer {
  constructor(place) {
    this.place = place;
    this.text = "";
    this.drawing = 0;
    place.classList.add("running");
  }

  add(token) {
    this.text += token;
    if (!this.drawing) this.drawing = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.drawing = 0;
    const output = element("output");
    const atEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
    this.place.textContent = this.text;
    if (atEnd) output.scrollTop = output.scrollHeight;
  }

  finish() {
    cancelAnimationFrame(this.drawing);
    this.draw();
    this.place.classList.remove("running");
  }

  /** With the words that it answers. */
  remove() {
    this.place.parentElement.remove();
  }
}

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

function begin(id) {
  state.running = id;
  const hadFocus = document.activeElement;
  element("stop").hidden = !id;
  element("send").hidden = Boolean(id);
  element("output").ariaBusy = String(Boolean(id)); // it is read out when it is whole
  if (id) for (const name of ["first-token", "rate", "tokens", "ended"]) element(name).textContent = "–";
  if (hadFocus === element("stop") || hadFocus === element("send")) element(id ? "stop" : "prompt").focus();
  render();
}

/** A chat's next turn: both words below those before. Answers the place of the model's. */
function sayInTurn(text) {
  const answer = made("div", "said assistant", "");
  const turn = made("div", "turn", "");
  turn.append(made("div", "said user", text), answer);
  element("output").append(turn);
  element("output").scrollTop = element("output").scrollHeight;
  return answer;
}

/** One text, of which the model writes the end. Answers the place of that. */
function sayInOne(text) {
  const answer = made("span", "assistant", "");
  const whole = made("div", "said", "");
  whole.append(made("span", "begun", text), answer);
  element("output").replaceChildren(whole);
  return answer;
}

function made(kind, classes, text) {
  const place = document.createElement(kind);
  place.className = classes;
  place.textContent = text;
  return place;
}

function show(place, text) {
  place.textContent = text || "";
  place.hidden = !text;
}

function clear() {
  stop();
  state.messages = [];
  state.asked = null;
  element("output").replaceChildren();
  show(element("problem"), null);
  show(element("connection"), null);
  render();
}

function render() {
  const isText = mode() === "complete";
  element("system-row").hidden = isText;
  element("prompt-label").textContent = isText ? "The beginning of a text" : "Your message";
  element("prompt").placeholder = isText ? "The beginning of a text" : "Your message";
  element("output").dataset.hint = HINTS[mode()];
  const language = document.querySelector("input[name=language]:checked").value;
  element("code").textContent = snippets[language](location.origin, shown());
}

/* What people do */

element("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(element("key").value.trim());
});

element("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await signIn(await login(element("email").value, element("password").value, element("otp").value));
  } catch (problem) {
    show(element("sign-in-problem"), problem.message);
  }
});

element("sign-out").addEventListener("click", () => {
  element("prompt").value = element("system").value = "";
  signOut(null);
});
element("clear").addEventListener("click", clear);
element("stop").addEventListener("click", stop);
element("cut").addEventListener("click", () => state.stream?.cut());
element("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
element("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
document.addEventListener("input", (event) => {
  if (event.target.name === "mode") clear();
  else render();
});
element("parameters").addEventListener("submit", (event) => event.preventDefault());
element("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(element("code").textContent);
  element("copy").textContent = "Copied";
  setTimeout(() => (element("copy").textContent = "Copy"), 1500);
});

const kept = sessionStorage.getItem(STORED);
if (kept) signIn(kept);
else element("key").focus();
