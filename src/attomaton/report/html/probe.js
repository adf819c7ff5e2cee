const bar = document.querySelector(".slider"), input = bar.querySelector("input");
const said = bar.querySelector("output"), marks = [...document.querySelectorAll(".mark")];
const show = () => marks.forEach((mark, i) => {
  mark.hidden = i !== Number(input.value);
  if (!mark.hidden) said.textContent = mark.dataset.step;
});
bar.hidden = false;
input.addEventListener("input", show);
show();
