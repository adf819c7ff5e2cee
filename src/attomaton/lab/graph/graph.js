// A priority graph as an SVG of our own: it pans and zooms as one, nodes are dragged, and the export is the drawing.
// The elements are made here and not by Vue: a picture may hold 2,000 of them, and moving one must not redraw the rest.
import { saved } from "saved";

const SPACE = "http://www.w3.org/2000/svg";
const STYLE = `
.pg { font: 13px Roboto, system-ui, sans-serif; }
.pg text { fill: var(--ink); dominant-baseline: central; }
.pg .band { fill: var(--fill); }
.pg .level { fill: var(--soft); }
.pg .box rect { fill: var(--paper); stroke: var(--link); stroke-width: 1.2; stroke-dasharray: 6 3; }
.pg .box text { fill: var(--link); font-size: 11px; }
.pg .node rect { fill: var(--paper); stroke: var(--soft); stroke-width: 1; }
.pg .node text { text-anchor: middle; }
.pg .node.several rect { stroke: var(--link); stroke-dasharray: 6 3; }
.pg .node.last rect { stroke: var(--hot); stroke-width: 1.6; }
.pg .node.chosen rect { stroke: var(--link); stroke-width: 3; }
.pg .edge { fill: none; stroke: var(--soft); stroke-linecap: round; stroke-linejoin: round; stroke-opacity: var(--faint, .8); }
.pg .edge.active { stroke: var(--ink); }
.pg .edge.slack { stroke-dasharray: 5 4; }
.pg .edge.tie { stroke: var(--link); }
.pg .edge.gained { stroke: var(--good); stroke-opacity: 1; }
.pg .edge.lost { stroke: var(--hot); stroke-dasharray: 6 4; stroke-opacity: 1; }
.pg .edge.tied { stroke: var(--link); stroke-opacity: 1; }
.pg .edge.apart { stroke: var(--link); stroke-dasharray: 2 3; stroke-opacity: 1; }
.pg .edge.reversed { stroke: var(--hot); stroke-opacity: 1; }
.pg.many .edge { stroke-dasharray: none; }
.pg .hit { fill: none; stroke: transparent; stroke-width: 12; }
.pg .edge.chosen { stroke: var(--hot); stroke-opacity: 1; }
.pg.calm .edge:not(.lit) { stroke-opacity: .25; }
.pg.dim .edge:not(.lit) { stroke-opacity: .1; }
.pg.calm .node:not(.lit) rect { stroke-opacity: .4; }
.pg.dim .node:not(.lit) rect { stroke-opacity: .2; }
.pg.calm .node:not(.lit) text { fill-opacity: .5; }
.pg.dim .node:not(.lit) text { fill-opacity: .2; }
.pg .edge.lit { stroke-opacity: 1; }
.pg.small .box text, .pg.levelless .level { display: none; }
.pg .node text { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; stroke-opacity: .55; stroke-linejoin: round; }
.pg .node rect.odds { fill: var(--link); stroke: none; }
.pg .node.fold rect { stroke-dasharray: 2 3; }
.pg .node.fold text { fill: var(--soft); }
`;
const MANY = 600; // edges above which lines are plain and only as wide as they look, also for the pointer
const CLICK = 4; // pixels a pointer may tremble in a click
const NEAREST = 6, FARTHEST = 0.04; // zoom
const SMALLEST = 11; // pixels of a letter on the screen: smaller ones are not drawn
const CURVES = 150; // edges in view that are bent while the drawing moves; more are straight
const STRIP = 48; // pixels beside the drawing for the buttons

function made(name, attributes, parent) {
  const e = document.createElementNS(SPACE, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  parent?.appendChild(e);
  return e;
}

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const r = (x) => Math.round(x * 10) / 10;

// Where the ray from the middle of a node towards a point leaves its rectangle.
function border(node, towards, height) {
  const dx = towards.x - node.x, dy = towards.y - node.y;
  const t = Math.min(node.w / 2 / Math.max(Math.abs(dx), 1e-9), height / 2 / Math.max(Math.abs(dy), 1e-9), 1);
  return { x: node.x + dx * t, y: node.y + dy * t };
}

// The line of an edge with its arrow head. Edges downwards leave below and arrive above; those inside a component, or
// turned around by dragging, go from border to border, bent to one side so that there and back stay apart.
function line(a, b, edge, size) {
  const [, , width, bow, kind] = edge;
  let body, from, tip;
  const y0 = a.y + size.height / 2, y1 = b.y - size.height / 2 - 1;
  if (kind !== "tie" && y1 - y0 > 14) {
    const reach = (n, dx) => clamp(dx * 0.08, 10 - n.w / 2, n.w / 2 - 10);
    const x0 = a.x + reach(a, b.x - a.x + bow), x1 = b.x + reach(b, a.x - b.x + bow);
    const bend = (y1 - y0) * size.bend;
    from = { x: x1 + bow, y: y1 - bend };
    tip = { x: x1, y: y1 };
    body = `M${r(x0)} ${r(y0)}C${r(x0 + bow)} ${r(y0 + bend)} ${r(from.x)} ${r(from.y)} ${r(x1)} ${r(y1)}`;
  } else {
    const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy) || 1;
    const aside = clamp(length * 0.16, 8, 34);
    from = { x: (a.x + b.x) / 2 - (dy / length) * aside, y: (a.y + b.y) / 2 + (dx / length) * aside };
    const start = border(a, from, size.height);
    tip = border(b, from, size.height + 2);
    body = `M${r(start.x)} ${r(start.y)}Q${r(from.x)} ${r(from.y)} ${r(tip.x)} ${r(tip.y)}`;
  }
  const angle = Math.atan2(tip.y - from.y, tip.x - from.x), long = 4 + 1.5 * width;
  const wing = (turn) => `${r(tip.x - long * Math.cos(angle + turn))} ${r(tip.y - long * Math.sin(angle + turn))}`;
  return `${body}M${wing(0.45)}L${r(tip.x)} ${r(tip.y)}L${wing(-0.45)}`;
}

export default {
  template: `
    <div class="pg-frame" @pointerleave="hover(null)">
      <svg ref="svg" class="pg" tabindex="-1" role="group" :aria-label="label"></svg>
      <canvas ref="sketch" class="pg-sketch" aria-hidden="true"></canvas>
      <div class="pg-buttons">
        <q-btn round dense unelevated icon="add" aria-label="Zoom in" title="Zoom in (+)" @click="zoom(1.25)" />
        <q-btn round dense unelevated icon="remove" aria-label="Zoom out" title="Zoom out (−)" @click="zoom(0.8)" />
        <q-btn round dense unelevated icon="fit_screen" aria-label="Fit" title="Show all (0)" @click="fit()" />
        <q-btn round dense unelevated icon="restart_alt" aria-label="Reset" title="Put everything back" @click="reset()" />
      </div>
      <div ref="tip" class="pg-tip" role="status"></div>
    </div>`,
  props: { scene: Object, label: String },
  mounted() {
    this.view = { x: 0, y: 0, k: 1 };
    this.pointers = new Map();
    this.drag = null;
    const svg = this.$refs.svg;
    const heard = { pointerdown: this.down, pointermove: this.move, pointerup: this.up, pointercancel: this.up };
    for (const [name, handler] of Object.entries(heard)) svg.addEventListener(name, handler);
    svg.addEventListener("pointerover", (e) => this.drag || this.hover(this.what(e.target), e));
    svg.addEventListener("focusin", (e) => this.focused(e.target));
    svg.addEventListener("focusout", () => this.hover(null));
    svg.addEventListener("keydown", this.key);
    svg.addEventListener("wheel", this.wheel, { passive: false });
    // One finger scrolls the page, two are for the drawing.
    svg.addEventListener("touchstart", (e) => e.touches.length > 1 && e.preventDefault(), { passive: false });
    this.build();
    this.sizes = new ResizeObserver(() => this.untouched && this.fit());
    this.sizes.observe(svg);
  },
  beforeUnmount() {
    this.sizes?.disconnect();
    clearTimeout(this.rest);
  },
  watch: {
    scene() {
      this.build();
    },
  },
  methods: {
    // Drawing

    build() {
      const svg = this.$refs.svg, { nodes, edges, boxes, bands, moved, width, size } = this.scene;
      clearTimeout(this.rest);
      this.moving = null;
      this.$refs.sketch.style.display = "none";
      svg.replaceChildren();
      svg.classList.toggle("many", edges.length > MANY);
      made("style", {}, svg).textContent = STYLE;
      this.world = made("g", { class: "world" }, svg);
      this.lettered = null;
      const layer = (name) => made("g", { class: name }, this.world);
      const [behind, around, lines, front] = ["bands", "boxes", "edges", "nodes"].map(layer);
      // Names of levels stay readable when a wide drawing is shown small: they grow with the room beside it.
      this.beside = clamp(width * 0.09, 84, 300);
      svg.style.setProperty("--faint", clamp(8 / Math.sqrt(edges.length || 1), 0.3, 0.8).toFixed(2));
      this.at = nodes.map((n) => ({ x: moved[n.id]?.[0] ?? n.x, y: moved[n.id]?.[1] ?? n.y, w: n.w }));
      for (const b of bands) {
        const left = -width / 2 - this.beside, tall = b.bottom - b.top;
        made("rect", { class: "band", x: left, y: b.top, width: width + this.beside, height: tall, rx: 8 }, behind);
        const text = made("text", { class: "level", x: left + this.beside / 8, y: (b.top + b.bottom) / 2 }, behind);
        text.textContent = `level ${b.level}`;
      }
      this.boxes = boxes.map((b, i) => {
        const g = made("g", { class: "box", "data-box": i }, around);
        const shape = { rect: made("rect", { rx: 12 }, g), text: made("text", {}, g), members: b.members };
        shape.text.textContent = b.title;
        return shape;
      });
      this.box_of = new Map(boxes.flatMap((b, i) => b.members.map((k) => [k, i])));
      this.touching = nodes.map(() => []);
      this.lines = edges.map(([a, b, wide, , kind], i) => {
        this.touching[a].push(i);
        this.touching[b].push(i);
        const path = made("path", { class: `edge ${kind}`, "stroke-width": wide, "data-edge": i }, lines);
        return edges.length > MANY ? [path] : [path, made("path", { class: "hit", "data-edge": i }, lines)];
      });
      this.shapes = nodes.map((n, i) => {
        const kind = "node" + (n.last ? " last" : "") + (n.several ? " several" : "") + (n.fold ? " fold" : "");
        const g = made("g", { class: kind, "data-node": i, "data-id": n.id, tabindex: i ? -1 : 0, role: "button" }, front);
        g.setAttribute("aria-label", [n.name, ...n.tip].join(", "));
        // As tall as it is common, as dark as its odds.
        const tall = size.height * n.grown, shape = { x: -n.w / 2, y: -tall / 2, width: n.w, height: tall, rx: 14 };
        made("rect", shape, g);
        made("rect", { ...shape, class: "odds", "fill-opacity": r(46 * n.odds) / 100 }, g);
        made("text", {}, g).textContent = n.drawn;
        return g;
      });
      this.lay();
      this.chosen = null;
      this.hover(null);
      this.mark(this.scene.chosen);
      this.fit();
    },
    // Everything where its node is.
    lay() {
      this.shapes.forEach((_, i) => this.stand(i));
      this.lines.forEach((_, i) => this.trace(i));
      this.boxes.forEach((_, i) => this.surround(i));
    },
    stand(i) {
      this.shapes[i].setAttribute("transform", `translate(${r(this.at[i].x)} ${r(this.at[i].y)})`);
    },
    trace(i) {
      const edge = this.scene.edges[i];
      const d = line(this.at[edge[0]], this.at[edge[1]], edge, this.scene.size);
      for (const path of this.lines[i]) path.setAttribute("d", d);
    },
    surround(i) {
      const { rect, text, members } = this.boxes[i], { height, pad, title } = this.scene.size;
      const all = members.map((k) => this.at[k]);
      let left = Math.min(...all.map((n) => n.x - n.w / 2)) - pad, right = Math.max(...all.map((n) => n.x + n.w / 2)) + pad;
      const spare = Math.max(60 + 2 * pad - (right - left), 0) / 2; // the title wants some room
      left -= spare;
      right += spare;
      const top = Math.min(...all.map((n) => n.y)) - height / 2 - pad - title;
      const bottom = Math.max(...all.map((n) => n.y)) + height / 2 + pad;
      const shape = { x: left, y: top, width: right - left, height: bottom - top };
      for (const [k, v] of Object.entries(shape)) rect.setAttribute(k, r(v));
      text.setAttribute("x", r(left + pad));
      text.setAttribute("y", r(top + pad + 2));
    },
    place(i, x, y) {
      Object.assign(this.at[i], { x, y });
      this.stand(i);
      this.touching[i].forEach((e) => this.trace(e));
      if (this.box_of.has(i)) this.surround(this.box_of.get(i));
    },

    // Pan and zoom

    apply() {
      const { x, y, k } = this.view;
      if (this.moving) return (this.frame ??= requestAnimationFrame(() => this.sketch()));
      this.world.setAttribute("transform", `translate(${r(x)} ${r(y)}) scale(${k})`);
      this.settle();
    },
    // What follows the zoom, but not frame by frame: names that would be smaller than can be read are hidden instead.
    settle() {
      const { k } = this.view, svg = this.$refs.svg;
      if (k === this.lettered) return;
      this.lettered = k;
      this.named = this.names();
      this.world.firstChild.style.fontSize = `${r(clamp(12 / k, 12, this.beside / 4.5))}px`;
      const small = (size) => size * k < SMALLEST;
      svg.classList.toggle("small", small(11));
      svg.classList.toggle("levelless", small(clamp(12 / k, 12, this.beside / 4.5)));
      this.shapes.forEach((shape, i) => {
        const shown = this.named.has(i), text = shape.lastChild;
        text.style.display = shown ? "" : "none";
        text.style.fontSize = small(13) ? `${r((10 * SMALLEST) / k) / 10}px` : "";
      });
    },
    // Which nodes have room for their names at this zoom: where letters would become too small they keep their size, and
    // the names of what was seen most often go first.
    names() {
      const { k } = this.view, { nodes, size } = this.scene, all = nodes.map((_, i) => i);
      if (13 * k >= SMALLEST) return new Set(all);
      const scale = SMALLEST / 13 / k, tall = (SMALLEST * 1.3) / k, taken = [], found = new Set();
      all.sort((a, b) => nodes[b].fold - nodes[a].fold || nodes[b].grown - nodes[a].grown);
      for (const i of all) {
        const { x, y, w } = this.at[i], wide = (w - 14) * scale;
        const box = [x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2];
        if (taken.some((o) => box[0] < o[2] && box[2] > o[0] && box[1] < o[3] && box[3] > o[1])) continue;
        taken.push(box);
        found.add(i);
      }
      return found;
    },
    // While it moves, what is in view is sketched on a canvas: thousands of elements are too many to be moved in time.
    // At rest the elements themselves are shown again.
    move_on() {
      this.untouched = false;
      clearTimeout(this.rest);
      this.rest = setTimeout(() => this.stay(), 200);
      if (this.moving) return;
      this.moving = true;
      const svg = this.$refs.svg, canvas = this.$refs.sketch, style = getComputedStyle(svg);
      const dots = window.devicePixelRatio || 1, [width, height] = [svg.clientWidth, svg.clientHeight];
      const colour = Object.fromEntries(["ink", "soft", "paper", "line", "fill", "link", "hot", "good"].map((name) => [
        name, style.getPropertyValue(`--${name}`).trim()]));
      this.sketching = { context: canvas.getContext("2d"), dots, width, height, colour };
      Object.assign(canvas, { width: width * dots, height: height * dots });
      canvas.style.display = "block";
      this.world.style.opacity = 0;
    },
    stay() {
      cancelAnimationFrame(this.frame);
      this.moving = this.frame = null;
      this.$refs.sketch.style.display = "none";
      this.world.style.opacity = "";
      this.apply();
    },
    sketch() {
      this.frame = null;
      if (!this.moving) return;
      const { context: c, dots, width, height, colour } = this.sketching, { x, y, k } = this.view, { size } = this.scene;
      const left = -x / k, top = -y / k, right = left + width / k, bottom = top + height / k;
      const seen = (x0, y0, x1, y1) => x1 > left && x0 < right && y1 > top && y0 < bottom;
      c.setTransform(dots, 0, 0, dots, 0, 0);
      c.fillStyle = colour.paper;
      c.fillRect(0, 0, width, height);
      c.setTransform(dots * k, 0, 0, dots * k, dots * x, dots * y);
      c.fillStyle = colour.fill;
      const begin = -this.scene.width / 2 - this.beside, wide = this.scene.width + this.beside;
      for (const b of this.scene.bands) if (seen(begin, b.top, begin + wide, b.bottom)) c.fillRect(begin, b.top, wide, b.bottom - b.top);
      // Lines one by one, as thin as can be: one path of many that cross each other takes ten times as long.
      const lines = this.scene.edges.filter(([a, b]) => {
        const p = this.at[a], q = this.at[b];
        return seen(Math.min(p.x, q.x) - 40, Math.min(p.y, q.y), Math.max(p.x, q.x) + 40, Math.max(p.y, q.y));
      });
      const kinds = { active: colour.ink, slack: colour.soft, tie: colour.link, gained: colour.good, lost: colour.hot,
        tied: colour.link, apart: colour.link, reversed: colour.hot, same: colour.soft };
      c.lineWidth = 1 / k;
      c.globalAlpha = +this.$refs.svg.style.getPropertyValue("--faint") || 0.8;
      for (const [a, b, , , kind] of lines) {
        const p = this.at[a], q = this.at[b], from = p.y + size.height / 2, to = q.y - size.height / 2;
        c.strokeStyle = kinds[kind];
        c.beginPath();
        c.moveTo(p.x, from);
        if (lines.length > CURVES) c.lineTo(q.x, to);
        else c.bezierCurveTo(p.x, from + (to - from) * size.bend, q.x, to - (to - from) * size.bend, q.x, to);
        c.stroke();
      }
      c.globalAlpha = 1;
      const nodes = this.scene.nodes.map((_, i) => i).filter((i) => {
        const n = this.at[i];
        return seen(n.x - n.w / 2, n.y - size.height / 2, n.x + n.w / 2, n.y + size.height / 2);
      });
      c.lineWidth = Math.max(1, 0.7 / k);
      for (const i of nodes) {
        const n = this.at[i], dot = this.scene.nodes[i], tall = size.height * dot.grown;
        c.fillStyle = colour.paper;
        c.fillRect(n.x - n.w / 2, n.y - tall / 2, n.w, tall);
        c.globalAlpha = 0.46 * dot.odds;
        c.fillStyle = colour.link;
        c.fillRect(n.x - n.w / 2, n.y - tall / 2, n.w, tall);
        c.globalAlpha = 1;
        c.strokeStyle = dot.last ? colour.hot : colour.soft;
        c.strokeRect(n.x - n.w / 2, n.y - tall / 2, n.w, tall);
      }
      // Names in their own size on the screen, those that had room when it stood still.
      const letters = Math.max(13 * k, SMALLEST);
      c.setTransform(dots, 0, 0, dots, 0, 0);
      c.font = `${r(letters)}px Roboto, system-ui, sans-serif`;
      [c.textAlign, c.textBaseline, c.fillStyle] = ["center", "middle", colour.ink];
      for (const i of nodes)
        if (13 * k >= SMALLEST || this.named.has(i)) c.fillText(this.scene.nodes[i].drawn, x + this.at[i].x * k, y + this.at[i].y * k);
    },
    pan(dx, dy) {
      this.move_on();
      this.view.x += dx;
      this.view.y += dy;
      this.apply();
    },
    zoom(factor, at) {
      const { clientWidth, clientHeight } = this.$refs.svg, v = this.view;
      const { x, y } = at ?? { x: clientWidth / 2, y: clientHeight / 2 };
      const k = clamp(v.k * factor, FARTHEST, NEAREST);
      this.move_on();
      this.view = { x: x - ((x - v.x) * k) / v.k, y: y - ((y - v.y) * k) / v.k, k };
      this.apply();
    },
    fit() {
      if (this.moving) {
        clearTimeout(this.rest);
        this.stay();
      }
      const { clientWidth, clientHeight } = this.$refs.svg, { bands, width, size } = this.scene;
      const pad = size.pad, room = size.height / 2 + size.pad + size.title;
      const left = Math.min(-width / 2 - this.beside, ...this.at.map((n) => n.x - n.w / 2 - pad));
      const right = Math.max(width / 2, ...this.at.map((n) => n.x + n.w / 2 + pad));
      const top = Math.min(0, ...bands.map((b) => b.top), ...this.at.map((n) => n.y - room));
      const bottom = Math.max(0, ...bands.map((b) => b.bottom), ...this.at.map((n) => n.y + room));
      const wide = right - left + 16, tall = bottom - top + 16;
      const room_x = clientWidth - STRIP;
      const k = clamp(Math.min(room_x / wide, clientHeight / tall), FARTHEST / 4, 1.4);
      const x = room_x / 2 - (k * (left + right)) / 2, y = clientHeight / 2 - (k * (top + bottom)) / 2;
      this.view = { x, y, k };
      this.untouched = true;
      this.apply();
    },
    reset() {
      this.scene.nodes.forEach((n, i) => Object.assign(this.at[i], { x: n.x, y: n.y }));
      this.lay();
      this.fit();
      this.$emit("reset");
    },
    wheel(e) {
      e.preventDefault();
      const lines = e.deltaMode === 1 ? 30 : 1;
      this.zoom(Math.exp(-clamp(e.deltaY * lines, -300, 300) * 0.0015), this.local(e));
    },
    local(e) {
      const box = this.$refs.svg.getBoundingClientRect();
      return { x: e.clientX - box.x, y: e.clientY - box.y };
    },

    // Pointers: drag a node, a box or the background; two fingers zoom

    what(target) {
      const found = target.closest?.("[data-node], [data-edge], [data-box]");
      if (!found) return null;
      const { node, edge, box } = found.dataset;
      if (node !== undefined) return { kind: "node", i: +node };
      return edge !== undefined ? { kind: "edge", i: +edge } : { kind: "box", i: +box };
    },
    down(e) {
      if (e.button !== 0) return;
      try {
        this.$refs.svg.setPointerCapture(e.pointerId);
      } catch {} // a pointer that is gone already
      this.pointers.set(e.pointerId, this.local(e));
      const on = this.what(e.target);
      const items = on?.kind === "node" ? [on.i] : on?.kind === "box" ? this.boxes[on.i].members : [];
      const from = items.map((i) => ({ i, x: this.at[i].x, y: this.at[i].y }));
      this.drag = this.pointers.size > 1 ? { pinch: true } : { on, from, begin: this.local(e), last: this.local(e), moved: false };
    },
    move(e) {
      if (!this.pointers.has(e.pointerId)) return;
      const now = this.local(e), before = this.pointers.get(e.pointerId);
      if (this.drag?.pinch) {
        const [other] = [...this.pointers].filter(([id]) => id !== e.pointerId).map(([, p]) => p);
        if (other) {
          const apart = (p) => Math.hypot(p.x - other.x, p.y - other.y) || 1;
          this.zoom(apart(now) / apart(before), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
          this.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
        }
      } else if (this.drag) {
        const dx = now.x - this.drag.begin.x, dy = now.y - this.drag.begin.y;
        if (!this.drag.moved && Math.hypot(dx, dy) < CLICK) return;
        if (!this.drag.moved) this.hover(null);
        this.drag.moved = true;
        if (this.drag.from.length)
          for (const { i, x, y } of this.drag.from) this.place(i, x + dx / this.view.k, y + dy / this.view.k);
        else this.pan(now.x - this.drag.last.x, e.pointerType === "touch" ? 0 : now.y - this.drag.last.y);
        this.drag.last = now;
      }
      this.pointers.set(e.pointerId, now);
    },
    up(e) {
      this.pointers.delete(e.pointerId);
      const drag = this.drag;
      if (this.pointers.size) return;
      this.drag = null;
      if (!drag || drag.pinch || e.type === "pointercancel") return;
      if (!drag.moved) return this.choose(drag.on?.kind === "box" ? null : drag.on);
      if (drag.from.length) {
        const places = drag.from.map(({ i }) => [this.scene.nodes[i].id, r(this.at[i].x), r(this.at[i].y)]);
        this.$emit("moved", places);
      }
    },

    // Choosing and hovering

    choose(on) {
      const { nodes, edges } = this.scene;
      const ids = !on ? [] : on.kind === "node" ? [nodes[on.i].id] : edges[on.i].slice(0, 2).map((k) => nodes[k].id);
      this.mark(ids);
      this.$emit("choose", ids);
    },
    // One id is a node, two are the edge from the first to the second, none is nothing.
    mark(ids) {
      for (const e of this.$refs.svg.querySelectorAll(".chosen")) e.classList.remove("chosen");
      const { nodes, edges } = this.scene, [a, b] = (ids ?? []).map((id) => nodes.findIndex((n) => n.id === id));
      const kind = b === undefined ? "node" : "edge";
      const i = kind === "node" ? a ?? -1 : edges.findIndex((e) => e[0] === a && e[1] === b);
      this.chosen = i < 0 ? null : { kind, i };
      if (this.chosen) (kind === "node" ? this.shapes[i] : this.lines[i][0]).classList.add("chosen");
      this.light(this.chosen, "calm");
    },
    hover(on, e) {
      if (!this.world) return;
      const tip = this.$refs.tip;
      if (!on || on.kind === "box") {
        tip.style.display = "none";
        return this.light(this.chosen, "calm");
      }
      this.light(on, "dim");
      const { nodes, edges } = this.scene;
      const [a, b] = on.kind === "edge" ? edges[on.i] : [];
      const said = on.kind === "node" ? [nodes[on.i].name, ...nodes[on.i].tip]
        : [`${nodes[a].name} over ${nodes[b].name}`, edges[on.i][5]];
      tip.replaceChildren(...said.map((text) => Object.assign(document.createElement("div"), { textContent: text })));
      tip.style.display = "block";
      const { clientWidth, clientHeight } = this.$refs.svg;
      const p = e ? this.local(e) : this.screen(this.at[on.i]);
      const left = p.x + 16 + tip.offsetWidth > clientWidth ? p.x - 16 - tip.offsetWidth : p.x + 16;
      tip.style.left = `${clamp(left, 4, Math.max(clientWidth - tip.offsetWidth - 4, 4))}px`;
      tip.style.top = `${clamp(p.y + 18, 4, Math.max(clientHeight - tip.offsetHeight - 4, 4))}px`;
    },
    light(on, how) {
      const svg = this.$refs.svg;
      for (const e of svg.querySelectorAll(".lit")) e.classList.remove("lit");
      svg.classList.toggle("dim", !!on && how === "dim");
      svg.classList.toggle("calm", !!on && how === "calm");
      if (!on) return;
      const some = on.kind === "edge" ? [on.i] : this.touching[on.i];
      if (on.kind === "node") this.shapes[on.i].classList.add("lit");
      for (const i of some) {
        this.lines[i][0].classList.add("lit");
        for (const end of this.scene.edges[i].slice(0, 2)) this.shapes[end].classList.add("lit");
      }
    },

    // Keyboard

    screen(n) {
      return { x: this.view.x + n.x * this.view.k, y: this.view.y + n.y * this.view.k };
    },
    focused(target) {
      const on = this.what(target);
      if (on?.kind !== "node" || !target.matches(":focus-visible")) return;
      const { clientWidth, clientHeight } = this.$refs.svg, p = this.screen(this.at[on.i]);
      const x = clamp(p.x, 60, clientWidth - 60), y = clamp(p.y, 40, clientHeight - 40);
      if (x !== p.x || y !== p.y) this.pan(x - p.x, y - p.y);
      this.hover(on);
    },
    key(e) {
      if (e.altKey || e.ctrlKey || e.metaKey) return;
      const on = this.what(e.target), step = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key];
      if (e.key === "+" || e.key === "=") this.zoom(1.25);
      else if (e.key === "-" || e.key === "−") this.zoom(0.8);
      else if (e.key === "0") this.fit();
      else if (e.key === "Escape") this.choose(null);
      else if (on && (e.key === "Enter" || e.key === " ")) this.choose(on);
      else if (step && on?.kind === "node") this.walk(this.next_to(on.i, e.key));
      else if (step) this.pan(60 * step[0], 60 * step[1]);
      else return;
      e.preventDefault();
    },
    // All nodes are one stop of the Tab key: the one that was last walked to.
    walk(i) {
      for (const shape of this.shapes) shape.setAttribute("tabindex", -1);
      this.shapes[i].setAttribute("tabindex", 0);
      this.shapes[i].focus({ preventScroll: true });
    },
    // The node an arrow key leads to: the next in order, or the nearest above or below.
    next_to(i, key) {
      if (key === "ArrowLeft" || key === "ArrowRight") return clamp(i + (key === "ArrowLeft" ? -1 : 1), 0, this.at.length - 1);
      const sign = key === "ArrowUp" ? -1 : 1, here = this.at[i];
      let best = i, least = Infinity;
      this.at.forEach((n, k) => {
        const down = (n.y - here.y) * sign, far = down + Math.abs(n.x - here.x) * 0.5;
        if (down > 10 && far < least) [best, least] = [k, far];
      });
      return best;
    },

    // Files

    text() {
      const svg = this.$refs.svg, { clientWidth: width, clientHeight: height } = svg;
      const copy = svg.cloneNode(true);
      copy.classList.remove("dim", "calm");
      for (const e of copy.querySelectorAll(".hit")) e.remove();
      for (const e of [copy, ...copy.querySelectorAll("[tabindex]")]) e.removeAttribute("tabindex");
      const own = getComputedStyle(svg);
      copy.querySelector("style").textContent = STYLE.replace(/var\((--\w+)[^)]*\)/g, (_, name) => own.getPropertyValue(name).trim());
      copy.removeAttribute("style");
      for (const [k, v] of Object.entries({ xmlns: SPACE, width, height, viewBox: `0 0 ${width} ${height}` })) copy.setAttribute(k, v);
      const paper = made("rect", { width, height, fill: own.getPropertyValue("--paper").trim() });
      const title = made("title", {});
      title.textContent = this.label;
      copy.prepend(title, paper);
      return new XMLSerializer().serializeToString(copy);
    },
    async save(kind, name) {
      const svg = new Blob([this.text()], { type: "image/svg+xml" });
      if (kind === "svg") return saved(name, svg, svg.type);
      const image = new Image(), { clientWidth: width, clientHeight: height } = this.$refs.svg;
      image.src = URL.createObjectURL(svg);
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
      canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
      URL.revokeObjectURL(image.src);
      canvas.toBlob((blob) => saved(name, blob, blob.type), "image/png");
    },
    // How smoothly it moves: the times between so many frames, in milliseconds, each moved or zoomed a little further.
    async frames(count, zoom) {
      const times = [], next = () => new Promise(requestAnimationFrame);
      let before = await next();
      for (let i = 0; i < count; i++) {
        if (zoom) this.zoom(i % 20 < 10 ? 1.05 : 1 / 1.05);
        else this.pan(i % 60 < 30 ? 5 : -5, i % 40 < 20 ? 3 : -3);
        const now = await next();
        times.push(now - before);
        before = now;
      }
      return times;
    },
  },
};
