// Names for parts of the theme that a screen reader would find nameless,
// and a way for the keyboard to scroll what scrolls. Nothing else.
(() => {
  const fix = () => {
    document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
    document.querySelectorAll(".md-code__nav").forEach((nav, at) => {
      nav.setAttribute("aria-label", `Code block ${at + 1}`);
    });
    for (const button of document.querySelectorAll(".md-code__button")) {
      button.setAttribute("aria-label", button.title);
    }
    for (const box of document.querySelectorAll("pre > code, .md-typeset pre")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
  };
  document$.subscribe(() => setTimeout(fix, 100));
  addEventListener("resize", fix);
})();
