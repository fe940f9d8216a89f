"use strict";

const RESUME_AFTER_MS = 1000;

/** A response on /v1/responses. When its connection is cut, it reads the rest of the stream by another one. */
class ResponseStream {
  constructor(token) {
    this.headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    this.seen = -1;
    this.id = null;
    this.final = null;
  }

  /** Creates the response and reads it to its end. `on` has `text`, `cut` and `resumed`. */
  async run(body, on) {
    await this.read("/v1/responses", { method: "POST", body: JSON.stringify({ ...body, stream: true }) }, on);
    while (!this.final) {
      if (!this.id) throw new Error("The connection was cut before the first event. Send again.");
      on.cut(this.seen);
      await new Promise((resolve) => setTimeout(resolve, RESUME_AFTER_MS));
      this.resumedAt = performance.now();
      await this.read(`/v1/responses/${this.id}?stream=true&starting_after=${this.seen}`, {}, on);
    }
    return this.final;
  }

  /** Closes the connection, as a lost network does. The response goes on. */
  cut() {
    this.connection?.abort();
  }

  async cancel() {
    if (this.id) await fetch(`/v1/responses/${this.id}/cancel`, { method: "POST", headers: this.headers });
  }

  async read(url, options, on) {
    this.connection = new AbortController();
    try {
      const answer = await fetch(url, { ...options, headers: this.headers, signal: this.connection.signal });
      if (!answer.ok) throw new Refused((await answer.json()).error.message);
      const lines = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", piece; !(piece = await lines.read()).done; ) {
        const parts = (rest + piece.value).split("\n");
        rest = parts.pop();
        for (const line of parts) if (line.startsWith("data: ")) this.take(JSON.parse(line.slice(6)), on);
      }
    } catch (problem) {
      if (problem instanceof Refused) throw problem; // any other is a lost connection
    }
  }

  take(event, on) {
    if (this.resumedAt) on.resumed(event.sequence_number, performance.now() - this.resumedAt);
    this.resumedAt = null;
    this.seen = event.sequence_number;
    if (event.type === "response.created") this.id = event.response.id;
    if (event.type === "response.output_text.delta") on.text(event.delta);
    if (["response.completed", "response.incomplete", "response.failed"].includes(event.type)) this.final = event.response;
  }
}

class Refused extends Error {}
