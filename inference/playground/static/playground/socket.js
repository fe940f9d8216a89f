"use strict";

/** The service's WebSocket as promises: `signIn`, then any number of `generate` at once. */
class ModelSocket {
  /** onClosed(code) is called once, when the socket has ended. */
  constructor(url, onClosed) {
    this.waiting = new Map();
    this.opened = new Promise((resolve, reject) => {
      this.greeting = { resolve, reject };
    });
    this.socket = new WebSocket(url);
    this.socket.onmessage = (event) => this.take(JSON.parse(event.data));
    this.socket.onclose = (event) => {
      const problem = this.problem || new Error("The connection was closed. Send again to connect anew.");
      this.greeting.reject(problem);
      for (const one of this.waiting.values()) one.reject(problem);
      this.waiting.clear();
      onClosed(event.code);
    };
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  /** Who has signed in. */
  signIn(token) {
    const auth = () => this.send({ type: "auth", token });
    if (this.isOpen) auth();
    else this.socket.addEventListener("open", auth);
    return this.opened;
  }

  /** The `complete` frame of a request; its tokens come to onToken(text, logprobs) before. */
  generate(id, request, onToken) {
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, onToken });
      this.send({ type: "inference", id, ...request });
    });
  }

  cancel(id) {
    if (this.waiting.has(id)) this.send({ type: "cancel", id });
  }

  close() {
    this.socket.close(1000);
  }

  send(frame) {
    this.socket.send(JSON.stringify(frame));
  }

  take(frame) {
    const one = this.waiting.get(frame.id);
    if (frame.type === "auth") this.greeting.resolve(frame.user);
    else if (frame.type === "token") one?.onToken(frame.token, frame.logprobs);
    else if (frame.type === "complete") this.settle(frame.id, (waiting) => waiting.resolve(frame));
    else if (frame.type === "error" && one) this.settle(frame.id, (waiting) => waiting.reject(new Error(frame.message)));
    else if (frame.type === "error") this.problem = new Error(frame.message);
  }

  settle(id, how) {
    const one = this.waiting.get(id);
    this.waiting.delete(id);
    if (one) how(one);
  }
}
