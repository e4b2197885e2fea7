// The site's search, menu and theme. The search index is loaded when the search field is first used; nothing comes from another host.
(() => {
  const root = document.documentElement;
  const top = root.dataset.top;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const store = (value) => { try { localStorage.setItem("theme", value); } catch { /* files without storage */ } };
  const theme = stored();
  if (theme) root.dataset.theme = theme;

  let index = null;
  function load() {
    if (index) return index;
    index = new Promise((done) => {
      const script = document.createElement("script");
      script.src = top + "search-index.js";
      script.onload = () => done(window.searchIndex);
      script.onerror = () => done([]);
      document.head.append(script);
    });
    return index;
  }

  // "compression" as "compress", "gradients" as "gradient".
  const stem = (word) => word.replace(/(?<=.{4})(ions?|ing|ed|s)$/, "");

  // Points of a section for a query: every word must be there. Titles count most, whole words more than beginnings.
  function points([, , page, title, , words], query) {
    let sum = 0;
    const heading = ` ${title.toLowerCase()} `, of = ` ${page.toLowerCase()} `, text = ` ${words} `;
    for (const w of query) {
      let best = 0;
      const part = stem(w);
      if (text.includes(` ${part}`)) best = text.includes(` ${w} `) ? 2 : 1;
      else if (w.length > 3 && text.includes(w)) best = 0.5;
      if (heading.includes(` ${part}`)) best += heading.includes(` ${w} `) ? 6 : 4;
      if (of.includes(` ${part}`)) best += 3;
      if (best === 0) return 0;
      sum += best;
    }
    return sum;
  }

  function show(list, rows, text) {
    list.replaceChildren(...rows.map(([file, anchor, page, title, begin]) => {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = `${top}${file}#${anchor}`;
      const head = document.createElement("b"), small = document.createElement("small");
      head.textContent = page === title ? title : `${page} › ${title}`;
      small.textContent = begin;
      link.append(head, small);
      item.append(link);
      return item;
    }));
    if (rows.length === 0 && text) {
      const none = document.createElement("li");
      none.className = "none";
      none.textContent = `Nothing found for “${text}”`;
      list.append(none);
    }
    list.hidden = !text;
  }

  function search() {
    const field = document.getElementById("search"), list = document.getElementById("found");
    const find = async () => {
      const text = field.value.trim().toLowerCase();
      const query = text.split(/\s+/).filter(Boolean);
      const all = await load();
      const rows = all.map((row) => [points(row, query), row]).filter(([p]) => p > 0);
      rows.sort((a, b) => b[0] - a[0]);
      if (field.value.trim().toLowerCase() === text) show(list, query.length ? rows.slice(0, 12).map(([, r]) => r) : [], text);
    };
    field.addEventListener("focus", load);
    field.addEventListener("input", find);
    const links = () => [...list.querySelectorAll("a")];
    document.addEventListener("keydown", (e) => {
      const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey) {
        e.preventDefault();
        field.focus();
      } else if (e.key === "Escape") {
        list.hidden = true;
        if (typing) field.blur();
      } else if ((e.key === "ArrowDown" || e.key === "ArrowUp") && !list.hidden) {
        const all = [field, ...links()], at = all.indexOf(document.activeElement);
        if (at < 0) return;
        e.preventDefault();
        all[Math.min(Math.max(at + (e.key === "ArrowDown" ? 1 : -1), 0), all.length - 1)].focus();
      } else if (e.key === "Enter" && document.activeElement === field && links().length) {
        links()[0].click();
      }
    });
    document.addEventListener("click", (e) => { if (!e.target.closest(".search")) list.hidden = true; });
    list.addEventListener("click", () => { list.hidden = true; });
  }

  function buttons() {
    document.getElementById("theme").addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      store(root.dataset.theme);
    });
    const menu = document.getElementById("menu");
    menu.addEventListener("click", () => menu.setAttribute("aria-expanded", document.body.classList.toggle("menu")));
    document.querySelector(".pages [aria-current]")?.scrollIntoView({ block: "center" });
    scrollTo(0, location.hash ? scrollY : 0);
  }

  addEventListener("DOMContentLoaded", () => { search(); buttons(); });
})();
