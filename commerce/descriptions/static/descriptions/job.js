// How far a bulk job is, asked every two seconds until it has ended. Without this script the page shows how far it was.
"use strict";

(() => {
  const page = document.getElementById("description-job");
  const url = page?.dataset.progressUrl;
  if (!url) return;
  const EVERY_MS = 2000;

  async function look() {
    try {
      const answer = await fetch(url, { headers: { Accept: "application/json" } });
      if (answer.ok && !answer.redirected) {
        const told = await answer.json();
        if (!told.is_open) return location.reload();
        document.getElementById("job-state").textContent = told.state;
        document.getElementById("job-told").textContent = told.told;
        document.getElementById("job-progress").value = told.done;
      }
    } catch { /* the next look tries again */ }
    setTimeout(look, EVERY_MS);
  }

  setTimeout(look, EVERY_MS);
})();
