// Polls the progress of a bulk job every two seconds until it has ended. Without this script the page is static.
"use strict";

(() => {
  const page = document.getElementById("description-job");
  const url = page?.dataset.progressUrl;
  if (!url) return;
  const POLL_INTERVAL_MS = 2000;

  async function poll() {
    try {
      const response = await fetch(url, { headers: { Accept: "application/json" } });
      if (response.ok && !response.redirected) {
        const progress = await response.json();
        if (!progress.is_open) return location.reload();
        document.getElementById("job-state").textContent = progress.state;
        document.getElementById("job-counts").textContent = progress.counts;
        document.getElementById("job-progress").value = progress.done;
      }
    } catch { /* the next poll tries again */ }
    setTimeout(poll, POLL_INTERVAL_MS);
  }

  setTimeout(poll, POLL_INTERVAL_MS);
})();
