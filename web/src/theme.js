// The colour scheme: that of the system, or the user's choice, which the browser keeps.
import { changed } from "./feed.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

export const theme = {
  choice: "auto", // "auto", "light" or "dark"
  shown() {
    return theme.choice === "auto" ? (dark.matches ? "dark" : "light") : theme.choice;
  },
  use(choice) {
    theme.choice = choice;
    document.documentElement.dataset.theme = theme.shown();
    try {
      localStorage.setItem("troupe-theme", choice);
    } catch {
      // The browser keeps nothing: the choice lasts until the page is closed.
    }
    changed();
  },
};

export function startTheme() {
  let kept = null;
  try {
    kept = localStorage.getItem("troupe-theme");
  } catch {
    // As above.
  }
  theme.use(["light", "dark"].includes(kept) ? kept : "auto");
  dark.addEventListener("change", () => theme.use(theme.choice));
}
