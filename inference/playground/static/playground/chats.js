"use strict";

const MAX_CHATS = 50;
const KEEP_CHATS = "stoa-playground-keep-chats";

/**
 * The chats of one user, the newest first: `{id, mode, messages}`.
 *
 * They are in the tab's storage, which ends with the tab, and, if the user wants that, in the browser's.
 */
class ChatStore {
  constructor(userId) {
    this.name = `stoa-playground-chats-${userId}`;
    this.choice = `${KEEP_CHATS}-${userId}`;
  }

  get isKept() {
    return localStorage.getItem(this.choice) === "yes";
  }

  /** Keep the chats in the browser from now on, or delete them there. */
  keep(isKept) {
    const chats = this.list();
    if (isKept) localStorage.setItem(this.choice, "yes");
    else localStorage.removeItem(this.choice);
    (isKept ? sessionStorage : localStorage).removeItem(this.name);
    this.write(chats);
  }

  list() {
    const stored = (this.isKept ? localStorage : sessionStorage).getItem(this.name);
    return stored ? JSON.parse(stored) : [];
  }

  save(chat) {
    this.write([chat, ...this.list().filter((other) => other.id !== chat.id)].slice(0, MAX_CHATS));
  }

  delete(id) {
    this.write(this.list().filter((chat) => chat.id !== id));
  }

  /** Forget what only the tab has. */
  leaveTab() {
    sessionStorage.removeItem(this.name);
  }

  /** Write as many of the newest chats as the browser has room for. */
  write(chats) {
    const storage = this.isKept ? localStorage : sessionStorage;
    for (let count = chats.length; count > 0; count = Math.floor(count / 2)) {
      try {
        storage.setItem(this.name, JSON.stringify(chats.slice(0, count)));
        return;
      } catch (problem) {
        if (problem.name !== "QuotaExceededError") throw problem;
      }
    }
    storage.removeItem(this.name);
  }
}

/** The name of a chat in lists: the beginning of its first message. */
function chatTitle(chat) {
  const text = (chat.messages.find((message) => message.role === "user")?.content || "Chat").trim();
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
