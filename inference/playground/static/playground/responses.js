"use strict";

const RESUME_AFTER_MS = 1000;

/** A response on /v1/responses. When its connection is cut, it reads the rest of the stream by another one. */
class ResponseStream {
  constructor(token) {
    this.token = token;
    this.seen = -1;
    this.id = null;
    this.final = null;
  }

  /** Creates the response and reads it to its end. `on` has `text`, `cut` and `resumed`. */
  async run(body, on) {
    await this.read("/v1/responses", { method: "POST", body: { ...body, stream: true } }, on);
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
    if (!this.id) return;
    await askApi(this.token, `/v1/responses/${this.id}/cancel`, { method: "POST" }).catch(() => {}); // it has ended
  }

  async read(path, options, on) {
    this.connection = new AbortController();
    try {
      const answer = await askApi(this.token, path, { ...options, signal: this.connection.signal });
      for await (const event of readEvents(answer)) this.take(event, on);
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
