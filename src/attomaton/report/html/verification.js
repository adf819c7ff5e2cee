const bar = document.querySelector(".buttons"), sections = [...document.querySelectorAll(".claim")];
const rows = [...document.querySelectorAll(".claims tbody tr")];
bar.hidden = false;
bar.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.open !== undefined) {
    const open = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", open);
    document.querySelectorAll("details").forEach((one) => { one.open = open; });
    return;
  }
  bar.querySelectorAll("[data-show]").forEach((one) => one.setAttribute("aria-pressed", one === button));
  sections.forEach((section, i) => {
    section.hidden = rows[i].hidden = ![section.dataset.group, "all"].includes(button.dataset.show);
  });
});
