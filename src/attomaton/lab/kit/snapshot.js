((data, title, name) => {
  const seen = document.querySelector("main.page"), copy = seen.cloneNode(true);
  const twins = [...copy.querySelectorAll("*")];
  const twin = new Map([...seen.querySelectorAll("*")].map((e, i) => [e, twins[i]]));
  const pairs = (selector) => [...seen.querySelectorAll(selector)].map((e) => [e, twin.get(e)]);
  for (const [from, to] of pairs("*"))
    if (!from.closest("svg, math") && getComputedStyle(from).display === "none") to.remove(); // not seen, not kept
  const put = (to, name, text, kind) => {
    const made = Object.assign(document.createElement(name), { className: kind ?? "", textContent: text ?? "" });
    to?.replaceWith(made);
    return made;
  };
  for (const [from, to] of pairs("canvas")) {
    if (!from.clientWidth) { to.remove(); continue; }
    const picture = put(to, "img");
    picture.src = from.toDataURL();
    picture.alt = from.closest("[role=img]")?.ariaLabel ?? "";
    picture.style.cssText = `width: ${from.clientWidth}px; max-width: 100%;`;
  }
  const said = (e) => (e?.innerText ?? "").trim();
  for (const [from, to] of pairs(".q-checkbox, .q-toggle, .q-radio"))
    put(to, "span", `${from.ariaChecked === "true" ? "☑" : "☐"} ${said(from)}`, "note");
  for (const [from, to] of pairs(".q-field")) {
    const field = from.querySelector("input, textarea");
    const value = said(from.querySelector(".q-field__native span")) || field?.value || "–";
    put(to, "span", `${said(from.querySelector(".q-field__label")) || field?.ariaLabel || ""}: ${value}`, "note");
  }
  for (const [from, to] of pairs(".q-btn")) {
    const text = [...from.querySelectorAll(".block")].map(said).join(" ");
    if (text) put(to, "span", text, "chip").style.fontWeight = from.matches(".bg-primary, .here") ? "700" : "";
    else to?.remove();
  }
  copy.querySelectorAll("script, iframe, link, input, .q-slider, .q-icon, i, .upload, .q-tooltip, .pg-tip").forEach((e) => e.remove());
  copy.querySelectorAll("a").forEach((e) => {
    const plain = document.createElement("span");
    plain.className = e.className;
    plain.append(...e.childNodes);
    e.replaceWith(plain);
  });
  const ours = /^(class|style|role|colspan|rowspan|alt|lang|d|x|y|[xy][12]|c[xy]|r|r[xy]|fill.*|stroke.*|width|height|viewBox|transform|points|text-anchor|font-.*|marker-.*|opacity|id|dominant-baseline|dy|dx|display|stretchy|largeop|orient|ref[XY]|markerWidth|markerHeight|markerUnits|preserveAspectRatio|aria-label|src)$/;
  for (const e of [copy, ...copy.querySelectorAll("*")])
    for (const a of [...e.attributes])
      if (!ours.test(a.name) || (a.name === "src" && !a.value.startsWith("data:"))) e.removeAttribute(a.name);
  let styles = "";
  for (const sheet of document.styleSheets) {
    try {
      for (const rule of sheet.cssRules)
        if (!/^@(font-face|import)/.test(rule.cssText)) styles += rule.cssText.replace(/url\([^)]*\)/g, "none") + "\n";
    } catch {}
  }
  const escape = (s) => `${s}`.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const tables = data.map(([of, csv]) =>
    `<details><summary>Numbers of “${escape(of)}”</summary><pre>${escape(csv)}</pre></details>`).join("\n");
  const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title>` +
    `<meta name="viewport" content="width=device-width">` +
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">` +
    `<style>${styles.replace(/<\//g, "<\\/")}\nhtml, body { overflow: auto; height: auto; }</style></head>` +
    `<body class="${escape(document.body.className)}">${copy.outerHTML}<section class="page">${tables}` +
    `<p class="note">${escape(title)}, as it was on ${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC.</p>` +
    `</section></body></html>`;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([page], {type: "text/html"}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
})
