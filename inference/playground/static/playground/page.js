"use strict";

const element = (id) => document.getElementById(id);
const STORED = "stoa-playground-token";
const NOT_AUTHENTICATED = 4401;

const state = {
  socket: null,
  token: null,
  models: [],
  isChangingModel: false,
  chats: null, // the ChatStore of whoever is signed in
  chat: newChat(),
  editing: null, // the index of the message that Send replaces, with all after it
  asked: null, // the messages, or the text, that were sent last
  running: null,
  stream: null,
  count: 0,
};

function newChat() {
  return { id: String(Date.now()), mode: "chat", messages: [] };
}

/* Signing in */

async function signIn(token, { resumes = false } = {}) {
  state.token = token;
  show(element("sign-in-problem"), null);
  try {
    const user = await connect();
    sessionStorage.setItem(STORED, token);
    state.chats = new ChatStore(user.id);
    element("status").textContent = user.username;
    await listModels();
    element("sign-in").hidden = true;
    element("workbench").hidden = element("sign-out").hidden = false;
    element("key-form").reset();
    element("login-form").reset();
    element("keep").checked = state.chats.isKept;
    showChats();
    const [newest] = state.chats.list();
    if (resumes && newest) openChat(newest);
    element("prompt").focus();
  } catch (problem) {
    signOut(problem.message);
  }
}

function signOut(why) {
  sessionStorage.removeItem(STORED);
  state.chats = state.token = null;
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

/* What is asked */

/** The request that Send would send; while nothing is typed, the last one. */
function shownRequest() {
  const text = element("prompt").value;
  if (text || !state.asked) return planRequest(text || MODES[mode()].example || EXAMPLE, keptMessages());
  return Array.isArray(state.asked) ? planAnswer(state.asked) : planRequest(state.asked, []);
}

/** The messages that stay when the prompt is sent. */
function keptMessages() {
  return state.editing === null ? state.chat.messages : state.chat.messages.slice(0, state.editing);
}

async function send() {
  const text = element("prompt").value;
  if (!text.trim() || !canSend()) return;
  if (!writesText()) await compare(text);
  else if (mode() === "complete") await complete(text);
  else await converse([...keptMessages(), { role: "user", content: text }], text);
}

/** Whether nothing runs and the form is right; else the form says what is wrong. */
function canSend() {
  if (state.running) return false;
  readTools();
  const fields = [...element("parameters").elements].filter((field) => !field.closest("[hidden]")); // of this mode
  const wrong = fields.find((field) => !field.checkValidity());
  wrong?.closest("details")?.setAttribute("open", "");
  return !wrong || wrong.reportValidity();
}

/** Ask for the answer to these messages. `text` is what the prompt gets back when nothing came. */
async function converse(messages, text = "") {
  const chat = state.chat; // another one after `clear`
  const before = chat.messages;
  const plan = planAnswer(messages);
  state.asked = chat.messages = messages;
  chat.mode = mode();
  stopEditing();
  showChat();
  element("prompt").value = "";
  const place = made("div", "said assistant", "");
  element("output").append(place);
  element("output").scrollTop = element("output").scrollHeight;
  const answer = new Answer(place);
  try {
    const end = await run(plan, answer);
    if (chat !== state.chat) return;
    chat.messages = [...messages, answeredMessage(answer, end)];
    state.chats.save(chat);
  } catch (problem) {
    if (chat !== state.chat) return;
    show(element("problem"), problem.message);
    if (answer.text) chat.messages = [...messages, answeredMessage(answer, {})];
    else chat.messages = before;
    if (!answer.text && !element("prompt").value) element("prompt").value = text;
  } finally {
    if (chat === state.chat) showChat();
    if (chat === state.chat && chat.messages === before) fillResults(messages.slice(before.length));
    begin(null);
  }
}

/** Write the results of tools that nothing answered to their form again. */
function fillResults(messages) {
  for (const [at, { role, content }] of messages.entries()) if (role === "tool") element(`result-${at}`).value = content;
}

function answeredMessage(answer, end) {
  const message = { role: "assistant", content: answer.text };
  if (answer.tokens.length) message.tokens = answer.tokens;
  if (end.tool_calls?.length) message.tool_calls = end.tool_calls;
  return message;
}

/** Continue a text, which stays in the prompt. */
async function complete(text) {
  const { chat } = state; // another one after `clear`
  state.asked = text;
  const place = made("span", "assistant plain", "");
  const whole = made("div", "said", "");
  whole.append(made("span", "begun", text), place);
  element("output").replaceChildren(whole);
  try {
    await run(planRequest(text, []), new Answer(place));
  } catch (problem) {
    if (chat !== state.chat) return;
    show(element("problem"), problem.message);
    if (!place.textContent) element("output").replaceChildren();
  } finally {
    begin(null);
  }
}

/** Run a request that writes text, and show its figures. */
async function run(plan, answer) {
  const id = `try-${++state.count}`;
  const meter = new Meter();
  const add = (text, logprobs) => {
    meter.count();
    answer.add(text, logprobs);
  };
  show(element("problem"), null);
  show(element("connection"), null);
  show(element("token-detail"), null);
  begin(id);
  try {
    const end = await streamFor(plan, id, meter, add);
    meter.show(end);
    return end;
  } finally {
    answer.finish();
  }
}

/** Chats and texts come over the WebSocket; responses, and chats with tools, over HTTP. */
async function streamFor({ path, body }, id, meter, add) {
  if (path === "/v1/responses") return respond(body, meter, add);
  if (body.tools) {
    meter.start();
    state.stream = new ChatStream(state.token);
    return state.stream.run(body, add).finally(() => (state.stream = null));
  }
  if (!state.socket?.isOpen) await connect();
  meter.start();
  return state.socket.generate(id, body, add);
}

/** A response, whose connection a button cuts. Answers its end as the socket would. */
async function respond(body, meter, add) {
  const stream = (state.stream = new ResponseStream(state.token));
  meter.start();
  element("cut").hidden = false;
  try {
    const final = await stream.run(body, {
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

/** Show a map of the sentences, or the documents in the order of their relevance. */
async function compare(text) {
  if (mode() === "rerank" && !element("query").reportValidity()) return;
  const { path, body } = planRequest(text, []);
  const { chat } = state; // another one after `clear`
  state.asked = text;
  show(element("problem"), null);
  begin("compare");
  const began = performance.now();
  try {
    const said = await readJson(state.token, path, { method: "POST", body });
    if (chat !== state.chat) return;
    const shown = body.documents
      ? [rankedDocuments(body.documents, said.results)]
      : similarityMap(body.input, said.data.map((one) => one.embedding));
    element("output").replaceChildren(...shown);
    element("first-token").textContent = `${Math.round(performance.now() - began)} ms`;
    element("tokens").textContent = `${said.usage.prompt_tokens} in`;
  } catch (problem) {
    if (chat === state.chat) show(element("problem"), problem.message);
  } finally {
    begin(null);
  }
}

function stop() {
  if (state.stream) state.stream.cancel();
  else if (state.running) state.socket?.cancel(state.running);
}

/* Chats */

function showChat() {
  showConversation(state.chat.messages, {
    edit: startEditing,
    regenerate: () => canSend() && converse(state.chat.messages.slice(0, -1)),
    giveResults: (results) => canSend() && converse([...state.chat.messages, ...results]),
  });
  element("output").scrollTop = element("output").scrollHeight;
  showChats();
}

function showChats() {
  const chats = state.chats?.list() || [];
  element("chats").replaceChildren(
    ...chats.map((chat) => {
      const item = document.createElement("li");
      const open = makeButton(chatTitle(chat), `Open the chat: ${chatTitle(chat)}`, () => openChat(chat));
      if (chat.id === state.chat.id) open.ariaCurrent = "true";
      item.append(open, makeButton("×", `Delete the chat: ${chatTitle(chat)}`, () => deleteChat(chat.id)));
      return item;
    }),
  );
  element("no-chats").hidden = chats.length > 0;
}

function openChat(chat) {
  clear();
  const input = document.querySelector(`input[name=mode][value=${chat.mode}]`);
  input.checked = true;
  state.chat = chat;
  showModels();
  showChat();
  element("prompt").focus();
}

function deleteChat(id) {
  state.chats.delete(id);
  if (id === state.chat.id) clear();
  showChats();
  element("clear").focus();
}

function startEditing(index) {
  state.editing = index;
  element("prompt").value = state.chat.messages[index].content;
  element("prompt").focus();
  show(element("editing-text"), `Editing message ${index + 1}. It and what follows are replaced.`);
  element("editing").hidden = false;
  render();
}

function stopEditing() {
  state.editing = null;
  element("editing").hidden = true;
}

/* What is shown */

function begin(id) {
  state.running = id;
  const hadFocus = document.activeElement;
  element("stop").hidden = !id || !writesText();
  element("send").hidden = Boolean(id);
  element("output").ariaBusy = String(Boolean(id)); // it is read out when it is whole
  if (id) for (const name of ["first-token", "rate", "tokens", "ended"]) element(name).textContent = "–";
  const isLost = [element("stop"), element("send"), document.body].includes(hadFocus); // it was hidden, or drawn anew
  if (isLost) element(id && writesText() ? "stop" : "prompt").focus();
  render();
}

function show(place, text) {
  place.textContent = text || "";
  place.hidden = !text;
}

/** Begin a new chat. The one before is among the saved ones. */
function clear() {
  stop();
  state.chat = newChat();
  state.asked = null;
  stopEditing();
  element("output").replaceChildren();
  for (const name of ["problem", "connection", "token-detail"]) show(element(name), null);
  showChats();
  render();
}

function render() {
  const { label, hint } = MODES[mode()];
  element("system-row").hidden = !["chat", "respond"].includes(mode());
  element("query-row").hidden = mode() !== "rerank";
  element("sampling").hidden = !writesText();
  element("tools-row").hidden = mode() !== "chat";
  element("probabilities-row").hidden = !["chat", "complete"].includes(mode());
  element("rate").parentElement.hidden = element("ended").parentElement.hidden = !writesText();
  element("first-token").previousElementSibling.textContent = writesText() ? "First token" : "Took";
  element("prompt-label").textContent = element("prompt").placeholder = label;
  element("keys").textContent = writesText()
    ? "Enter sends, Shift+Enter is a new line, Esc stops."
    : "Ctrl+Enter sends, Enter is a new line.";
  element("output").dataset.hint = hint;
  showModelState();
  const language = document.querySelector("input[name=language]:checked").value;
  element("code").textContent = snippets[language](location.origin, shownRequest());
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
  for (const name of ["prompt", "system", "query", "tools"]) element(name).value = "";
  state.chats?.leaveTab();
  signOut(null);
});
element("clear").addEventListener("click", () => {
  clear();
  element("prompt").focus();
});
element("stop").addEventListener("click", stop);
element("cut").addEventListener("click", () => state.stream?.cut());
element("load").addEventListener("click", () => changeModel("load"));
element("unload").addEventListener("click", () => changeModel("unload"));
element("keep").addEventListener("change", () => state.chats.keep(element("keep").checked));
element("leave-editing").addEventListener("click", leaveEditing);
element("tools-example").addEventListener("click", () => {
  element("tools").value = JSON.stringify(EXAMPLE_TOOL, null, 2);
  element("tools").focus();
  render();
});
element("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
element("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  if (!writesText() && !event.ctrlKey) return; // the lines are many texts
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (state.running) stop();
  else if (state.editing !== null) leaveEditing();
});
document.addEventListener("input", (event) => {
  if (event.target.name !== "mode") return render();
  clear();
  showModels();
});
element("probabilities").addEventListener("change", () => {
  if (!state.running && state.chat.messages.length) showChat();
});
element("parameters").addEventListener("submit", (event) => event.preventDefault());
element("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(element("code").textContent);
  element("copy").textContent = "Copied";
  setTimeout(() => (element("copy").textContent = "Copy"), 1500);
});

function leaveEditing() {
  stopEditing();
  element("prompt").value = "";
  element("prompt").focus();
  render();
}

const stored = sessionStorage.getItem(STORED);
if (stored) signIn(stored, { resumes: true });
else element("key").focus();
