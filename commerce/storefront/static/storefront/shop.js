// Suggestions below the search box while typing. Everything else works without scripts.
(() => {
  const box = document.querySelector("[data-suggest]");
  const list = document.getElementById("suggestions");
  const language = box.form.elements.language?.value || "en";
  let timer = 0;
  let asked = "";

  const suggest = async () => {
    const text = box.value.trim();
    if (text.length < 2 || text === asked) return;
    asked = text;
    const query = new URLSearchParams({ q: text, language });
    const response = await fetch(`${box.dataset.suggest}?${query}`).catch(() => null);
    if (!response?.ok || asked !== text) return;
    const { data } = await response.json();
    list.replaceChildren(...data.map((found) => Object.assign(document.createElement("option"), { value: found.text })));
  };

  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(suggest, 150);
  });
})();
