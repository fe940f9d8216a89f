// Swagger UI is dark where its document has this class.
"use strict";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

// Swagger UI takes over links within its page, so that they no longer move the focus.
document.addEventListener("click", (event) => {
  if (event.target.matches(".site-skip")) document.getElementById("main").focus();
});
