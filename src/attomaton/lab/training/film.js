// A run of training, played in the browser: scores are sent once, every frame is computed and drawn here.
// A place in the run is a number of snapshots, which lie evenly on a log axis; between two, scores are interpolated.
import { clamp, player, unpacked } from "player";

const BARS = 5; // of one context
const ROW = 17; // pixels of a bar
const TALLEST = 6; // tokens of a level that stand above each other
const FONT = "Roboto, system-ui, sans-serif";
const SPEEDS = [0.25, 0.5, 1, 2, 4];

function number(x) {
  if (Number.isInteger(x)) return x.toLocaleString("en");
  return Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? `${Number(x.toPrecision(3))}` : x.toExponential(1);
}

const share = (x) => (x < 0.0005 ? "0" : `${Number(x.toPrecision(2))}`);

function saved(name, text, type) {
  const link = document.createElement("a");
  link.href = text.startsWith("data:") ? text : URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export default {
  mixins: [player],
  template: `
    <div class="film" tabindex="0" role="group" :aria-label="label" @keydown="key">
      <div class="film-bar">
        <q-btn round dense unelevated color="primary" :icon="playing ? 'pause' : 'play_arrow'"
          :aria-label="playing ? 'Pause' : 'Play'" title="Play or pause (space)" @click="toggle" />
        <input ref="slider" class="film-slider" type="range" min="0" :max="film.steps.length - 1" step="1"
          aria-label="Step of training" @input="go(+$event.target.value)" />
        <output class="film-step" ref="said"></output>
        <label class="film-speed">speed <select v-model.number="speed" aria-label="Speed">
          <option v-for="s in speeds" :key="s" :value="s">{{ s }}×</option></select></label>
        <q-btn flat round dense size="sm" icon="download" aria-label="Save this picture">
          <q-menu auto-close role="menu"><q-list dense role="none"><q-item clickable role="menuitem" @click="save('png')"><q-item-section>PNG</q-item-section></q-item>
          <q-item clickable role="menuitem" @click="save('csv')"><q-item-section>CSV of all rows at this step</q-item-section></q-item></q-list></q-menu>
        </q-btn>
      </div>
      <div class="film-grid">
        <figure class="film-graph"><figcaption>Priority after “{{ film.last }}”: edges harden (orders) and settle (ties)</figcaption>
          <canvas ref="graph" role="img" aria-label="priority graph at this step"></canvas></figure>
        <figure class="film-rows"><figcaption>Attention in {{ pageWords }}; dashed: where theory says it ends
          <span class="film-pages" v-if="film.contexts.length > rows">
            <q-btn flat round dense size="xs" icon="chevron_left" aria-label="Contexts before" @click="turn(-1)" />
            <q-btn flat round dense size="xs" icon="chevron_right" aria-label="Further contexts" @click="turn(1)" /></span></figcaption>
          <canvas ref="rows" role="img" aria-label="attention of some contexts at this step"></canvas></figure>
        <figure><figcaption>{{ film.loss.end === null ? 'Loss' : 'Loss over its floor L*' }}</figcaption>
          <canvas ref="loss" role="img" aria-label="loss over the steps"></canvas></figure>
        <figure><figcaption>Cosine of W with W_svm</figcaption>
          <canvas ref="cosine" role="img" aria-label="cosine over the steps"></canvas></figure>
        <figure><figcaption>Predicted against trained attention</figcaption>
          <canvas ref="scatter" role="img" aria-label="attention that theory predicts against that at this step"></canvas></figure>
        <figure><figcaption>Attention rows (click: show as bars)</figcaption>
          <canvas ref="heat" role="img" aria-label="attention of all contexts at this step as a heat map"
            @pointermove="hover" @pointerleave="tip = ''" @click="pick"></canvas></figure>
      </div>
      <div class="film-tip note" aria-live="off">{{ tip || film.folded }}</div>
    </div>`,
  props: { film: Object, label: String, start: Number },
  data() {
    return { first: 0, rows: 3, tip: "", speeds: SPEEDS };
  },
  computed: {
    pageWords() {
      const n = this.film.contexts.length;
      if (n <= this.rows) return n === 1 ? "its one context" : `${n} contexts`;
      return `contexts ${this.first + 1}–${Math.min(this.first + this.rows, n)} of ${n}`;
    },
  },
  mounted() {
    this.at = 0;
    this.read();
    this.sizes = new ResizeObserver(() => this.soon());
    for (const name of ["graph", "rows", "loss", "cosine", "scatter", "heat"]) this.sizes.observe(this.$refs[name]);
    this.theme = new MutationObserver(() => { this.colours = null; this.soon(); });
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.go(this.start ?? this.f.steps.length - 1);
  },
  beforeUnmount() {
    this.sizes?.disconnect();
    this.theme?.disconnect();
    cancelAnimationFrame(this.later);
  },
  watch: {
    film() {
      this.read();
      this.first = 0;
      this.go(Math.min(this.at, this.film.steps.length - 1));
    },
  },
  methods: {
    // Data

    read() {
      const f = (this.f = JSON.parse(JSON.stringify(this.film))); // out of Vue's reach: frames look at all of it
      this.laid = null;
      this.scores = unpacked(f.scores);
      this.now = new Float64Array(f.tokens.length);
      this.order = f.contexts.map((c, i) => i);
      // Bars of a context: what theory retrieves, what came next, then what had most attention at some time.
      this.shown = f.contexts.map((c) => {
        const most = c.tokens.map((_, k) => Math.max(c.end[k], c.tokens[k] === c.label ? 2 : 0));
        const rest = c.tokens.map((_, k) => this.highest(c, k));
        const by = c.tokens.map((_, k) => k).sort((a, b) => most[b] - most[a] || rest[b] - rest[a]);
        return c.tokens.length <= BARS ? by : by.slice(0, BARS - 1);
      });
      // Columns of the heat map: the tokens that the rows end with, and those with most attention on the way.
      const mass = new Map();
      f.contexts.forEach((c) => c.tokens.forEach((t, k) => mass.set(t, (mass.get(t) ?? 0) + c.end[k] + 0.1)));
      this.columns = [...mass.keys()].sort((a, b) => mass.get(b) - mass.get(a)).slice(0, 16);
    },
    highest(context, k) {
      const last = this.f.steps.length - 1;
      return Math.max(...[0, last >> 1, last].map((i) => this.attention(context, this.snapshot(i))[k]));
    },
    snapshot(i) {
      const n = this.f.tokens.length;
      return this.scores.subarray(i * n, (i + 1) * n);
    },
    attention(context, scores) {
      let high = -Infinity;
      const { tokens, counts } = context;
      for (const t of tokens) high = Math.max(high, scores[t]);
      const mass = tokens.map((t, k) => counts[k] * Math.exp(scores[t] - high));
      const all = mass.reduce((a, b) => a + b, 0);
      return mass.map((x) => x / all);
    },
    step() {
      const { steps } = this.f, i = Math.floor(this.at), j = Math.min(i + 1, steps.length - 1);
      return steps[i] + (this.at - i) * (steps[j] - steps[i]);
    },
    // Moving

    last() {
      return this.f.steps.length - 1;
    },
    go(at) {
      this.at = clamp(at, 0, this.last());
      this.draw();
    },
    rest() {
      this.$emit("at", Math.round(this.at));
    },
    key(e) {
      if (e.altKey || e.ctrlKey || e.metaKey || /SELECT|BUTTON/.test(e.target.tagName)) return;
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[e.key];
      if (by) { this.playing && this.pause(); this.go(Math.round(this.at) + by); }
      else if (e.key === " ") this.toggle();
      else if (e.key === "Home") this.go(0);
      else if (e.key === "End") this.go(Infinity);
      else return;
      e.preventDefault();
      if (e.key !== " ") this.$emit("at", Math.round(this.at));
    },
    turn(by) {
      const n = this.f.contexts.length;
      this.first = by > 0 ? (this.first + this.rows >= n ? 0 : this.first + this.rows) : Math.max(0, this.first - this.rows);
      this.draw();
    },
    soon() {
      cancelAnimationFrame(this.later);
      this.later = requestAnimationFrame(() => this.draw());
    },
    // Drawing

    paint() {
      if (this.colours) return this.colours;
      const style = getComputedStyle(document.body), value = (name) => style.getPropertyValue(name).trim();
      this.colours = Object.fromEntries(["ink", "soft", "paper", "line", "fill", "link", "hot", "good"].map((n) => [n, value(`--${n}`)]));
      return this.colours;
    },
    canvas(name) {
      const c = this.$refs[name], ratio = window.devicePixelRatio || 1;
      const w = c.clientWidth, h = c.clientHeight;
      if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) {
        c.width = Math.round(w * ratio);
        c.height = Math.round(h * ratio);
      }
      const g = c.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.clearRect(0, 0, w, h);
      g.font = `12px ${FONT}`;
      g.textBaseline = "middle";
      return [g, w, h];
    },
    draw() {
      const i = Math.floor(this.at), share = this.at - i, a = this.snapshot(i);
      if (share === 0) this.now.set(a);
      else {
        const b = this.snapshot(i + 1);
        for (let t = 0; t < a.length; t++) this.now[t] = a[t] + share * (b[t] - a[t]);
      }
      this.all = this.f.contexts.map((c) => this.attention(c, this.now));
      this.drawGraph();
      this.drawRows();
      this.drawCurve("loss", this.f.loss, false);
      this.drawCurve("cosine", this.f.cosine, true);
      this.drawScatter();
      this.drawHeat();
      const slider = this.$refs.slider, { steps } = this.f, said = `step ${Math.round(this.step()).toLocaleString("en")}`;
      slider.value = this.at;
      slider.setAttribute("aria-valuetext", said);
      this.$refs.said.textContent = `${said} of ${steps[steps.length - 1].toLocaleString("en")}`;
    },
    // Levels are columns, the highest on the left; tied tokens stand together.
    places(g, w, h) {
      if (this.laid?.w === w && this.laid.h === h) return this.laid;
      const f = this.f, nodes = f.tokens.map((t, i) => ({ ...t, i })).filter((t) => t.level !== null);
      const levels = [...new Set(nodes.map((n) => n.level))].sort((a, b) => a - b);
      const own = levels.map((level) => nodes.filter((n) => n.level === level).sort((a, b) => a.component - b.component || a.i - b.i));
      const columns = own.map((some) => Math.ceil(some.length / TALLEST)), all = columns.reduce((a, b) => a + b, 0);
      const wide = Math.max(...nodes.map((n) => n.name.length)), size = wide * all > w / 9 ? 11 : 12;
      g.font = `${size}px ${FONT}`;
      const most = w / Math.max(all, 1) - 12;
      for (const n of nodes) {
        n.text = n.name;
        while (n.text.length > 4 && g.measureText(n.text).width + 18 > most) n.text = `${n.text.slice(0, -2)}…`;
        n.half = Math.max(g.measureText(n.text).width / 2 + 9, 17);
      }
      // A long level goes on in further columns.
      const rows = own.map((some, level) => Math.ceil(some.length / columns[level]));
      let before = 0;
      own.forEach((some, level) => {
        some.forEach((n, k) => {
          n.column = level;
          n.row = k;
          n.x = ((before + Math.floor(k / rows[level]) + 0.5) / all) * w;
          n.y = (((k % rows[level]) + 0.5) / rows[level]) * (h - 16) + 8;
        });
        before += columns[level];
      });
      const tall = (h - 16) / Math.max(...rows);
      return (this.laid = { w, h, nodes, size, high: clamp(tall / 2 - 2, 7, 12), at: new Map(nodes.map((n) => [n.i, n])) });
    },
    drawGraph() {
      const [g, w, h] = this.canvas("graph"), c = this.paint(), f = this.f;
      const { nodes, size, high, at } = this.places(g, w, h);
      if (!nodes.length) return;
      // Ties stand in a frame.
      const groups = new Map();
      for (const n of nodes) groups.set(n.component, [...(groups.get(n.component) ?? []), n]);
      g.strokeStyle = c.link;
      for (const group of groups.values()) {
        if (group.length < 2) continue;
        const xs = group.flatMap((n) => [n.x - n.half, n.x + n.half]), left = Math.min(...xs) - 7;
        const ys = group.map((n) => n.y), top = Math.min(...ys) - high - 6;
        g.globalAlpha = 0.6;
        g.lineWidth = 1;
        g.setLineDash([5, 4]);
        g.beginPath();
        g.roundRect(left, top, Math.max(...xs) + 7 - left, Math.max(...ys) + high + 6 - top, 12);
        g.stroke();
        g.setLineDash([]);
        g.globalAlpha = 1;
      }
      const near = (e) => !e.tied && at.get(e.below).column - at.get(e.above).column === 1;
      const few = f.edges.filter(near).length <= 8, fewTies = f.edges.filter((e) => e.tied).length <= 6, words = [];
      for (const e of f.edges) {
        const a = at.get(e.above), b = at.get(e.below), d = this.now[e.above] - this.now[e.below];
        const span = b.column - a.column;
        // From side to side; past other columns, or inside one, in a bow.
        const beside = e.tied && a.x === b.x && Math.abs(a.row - b.row) > 1; // others stand between
        const sx = beside ? a.x - a.half : e.tied ? a.x : a.x + a.half, sy = beside || (e.tied && a.x !== b.x) ? a.y : e.tied ? a.y + (b.y > a.y ? high : -high) : a.y;
        const ex = beside ? b.x - b.half : e.tied ? b.x : b.x - b.half - 2, ey = beside || (e.tied && a.x !== b.x) ? b.y : e.tied ? b.y + (b.y > a.y ? -high : high) : b.y;
        const aside = e.tied ? 0 : span > 1 ? (a.y + b.y > h ? 1 : -1) * Math.min(16 * (span - 1) + 10, h / 2.6) : 0;
        const mx = (sx + ex) / 2 - (beside ? 40 : 0), my = (sy + ey) / 2 + aside * (Math.abs(a.y - b.y) < 2 * high ? 1.5 : 0.8);
        if (e.tied) { // settled where the odds are those of Luce
          const off = Math.abs(d - e.odds), settled = Math.exp(-2 * off);
          g.strokeStyle = c.link;
          g.globalAlpha = 0.35 + 0.65 * settled;
          g.lineWidth = (1 + 2 * settled) * (fewTies ? 1 : 0.5);
          g.setLineDash(off < 0.1 ? [] : [4, 3]);
        } else { // hard where nothing of the attention is left below
          const hard = 1 - Math.exp(-Math.max(d, 0));
          g.strokeStyle = d < 0 ? c.hot : c.ink;
          g.globalAlpha = 0.15 + 0.7 * (d < 0 ? 0.7 : hard);
          g.lineWidth = 0.8 + 1.8 * hard;
          g.setLineDash(d <= 0 ? [3, 3] : []);
        }
        g.beginPath();
        g.moveTo(sx, sy);
        g.quadraticCurveTo(mx, my, ex, ey);
        g.stroke();
        g.setLineDash([]);
        if (!e.tied) {
          const angle = Math.atan2(ey - my, ex - mx), long = 5 + g.lineWidth;
          g.beginPath();
          for (const s of [0.4, -0.4]) { g.moveTo(ex, ey); g.lineTo(ex - long * Math.cos(angle + s), ey - long * Math.sin(angle + s)); }
          g.stroke();
        }
        const text = e.tied ? `${number(Math.exp(d))} : 1 → ${number(Math.exp(e.odds))}` : share(Math.exp(-d));
        if (e.tied ? !beside && fewTies : few && span === 1) words.push([(sx + 2 * mx + ex) / 4, (sy + 2 * my + ey) / 4, text, e.tied]);
      }
      g.globalAlpha = 1;
      // Of all these tokens, side by side once, the share of each.
      const top = Math.max(...nodes.map((n) => this.now[n.i])), mass = nodes.map((n) => Math.exp(this.now[n.i] - top));
      const sum = mass.reduce((a, b) => a + b, 0);
      g.textAlign = "center";
      g.font = `11px ${FONT}`;
      for (const [x, y, text, tied] of words) {
        const wide = g.measureText(text).width + 6;
        g.globalAlpha = 0.9;
        g.fillStyle = c.paper;
        g.fillRect(x - wide / 2, y - 7, wide, 14);
        g.globalAlpha = 1;
        g.fillStyle = tied ? c.link : c.soft;
        g.fillText(text, x, y);
      }
      g.font = `${size}px ${FONT}`;
      nodes.forEach((n, j) => {
        g.beginPath();
        g.roundRect(n.x - n.half, n.y - high, 2 * n.half, 2 * high, high);
        g.fillStyle = c.paper;
        g.fill();
        g.globalAlpha = 0.5 * (mass[j] / sum);
        g.fillStyle = c.link;
        g.fill();
        g.globalAlpha = 1;
        g.lineWidth = n.name === f.last ? 1.6 : 1;
        g.strokeStyle = n.name === f.last ? c.hot : c.soft;
        g.stroke();
        g.fillStyle = c.ink;
        g.fillText(n.text, n.x, n.y);
      });
      g.textAlign = "left";
    },
    drawRows() {
      const [g, w, h] = this.canvas("rows"), c = this.paint(), f = this.f;
      const names = Math.min(110, w * 0.28), x = names + 8, wide = w - x - 44;
      const tall = (n) => ROW * (1 + this.shown[n].length + (this.shown[n].length < f.contexts[n].tokens.length)) + 9;
      const page = [];
      for (let i = this.first, room = h; i < this.order.length && (room -= tall(this.order[i])) >= -9; i++) page.push(this.order[i]);
      this.rows = Math.max(page.length, 1);
      const cut = (text, most) => {
        if (g.measureText(text).width <= most) return text;
        while (text.length > 1 && g.measureText(`${text}…`).width > most) text = text.slice(0, -1);
        return `${text}…`;
      };
      let top = 0;
      for (const n of page) {
        const context = f.contexts[n], now = this.all[n], row = ROW;
        g.font = `11px ${FONT}`;
        g.fillStyle = c.soft;
        const words = context.tokens.map((t, k) => f.tokens[t].name + (context.counts[k] > 1 ? ` ×${context.counts[k]}` : ""));
        g.fillText(cut(`${words.join(" · ")} (${context.rows.toLocaleString("en")} ${context.rows === 1 ? "row" : "rows"})`, w - 4), 2, top + row / 2);
        const bars = this.shown[n].map((k) => [f.tokens[context.tokens[k]].name, now[k], context.end[k], context.tokens[k] === context.label]);
        const others = context.tokens.length - bars.length;
        if (others > 0) {
          const rest = (values) => Math.max(1 - this.shown[n].reduce((sum, k) => sum + values[k], 0), 0);
          bars.push([`${others} others`, rest(now), rest(context.end), false]);
        }
        bars.forEach(([name, share, end, label], j) => {
          const y = top + (j + 1) * row;
          g.font = `${label ? "bold " : ""}12px ${FONT}`;
          g.fillStyle = c.ink;
          g.textAlign = "right";
          g.fillText(cut((label ? "▸ " : "") + name, names), names + 2, y + row / 2);
          g.textAlign = "left";
          g.fillStyle = c.fill;
          g.fillRect(x, y + 2, wide, row - 4);
          g.fillStyle = c.link;
          g.fillRect(x, y + 2, wide * share, row - 4);
          g.strokeStyle = c.ink;
          g.lineWidth = 1.2;
          g.setLineDash([4, 3]);
          g.strokeRect(x, y + 2, Math.max(wide * end, 0.5), row - 4);
          g.setLineDash([]);
          g.font = `11px ${FONT}`;
          g.fillStyle = c.soft;
          g.fillText(share < 0.0005 ? "0" : share.toFixed(3), x + wide + 5, y + row / 2);
        });
        top += tall(n);
      }
    },
    frameOf(name, box, low, high, ticks) {
      const [g, w, h] = this.canvas(name), c = this.paint();
      const [left, right, top, bottom] = box, y = (v) => h - bottom - ((v - low) / (high - low)) * (h - top - bottom);
      g.font = `11px ${FONT}`;
      g.strokeStyle = c.line;
      g.fillStyle = c.soft;
      g.textAlign = "right";
      g.lineWidth = 1;
      for (const v of ticks) {
        g.beginPath();
        g.moveTo(left, y(v));
        g.lineTo(w - right, y(v));
        g.stroke();
        g.fillText(number(v), left - 4, y(v));
      }
      g.textAlign = "left";
      return [g, w, h, y];
    },
    drawCurve(name, curve, toOne) {
      const c = this.paint(), box = [46, 12, 10, 20], values = curve.values.flat().filter((v) => v !== null);
      if (!values.length) {
        const [g, w, h] = this.canvas(name);
        g.fillStyle = c.soft;
        g.textAlign = "center";
        g.fillText(toOne ? "no token strictly outranks another" : "not recorded", w / 2, h / 2);
        g.textAlign = "left";
        return;
      }
      const end = curve.end, all = end === null ? values : [...values, end];
      let low = Math.min(...all), high = Math.max(...all);
      if (high - low < 1e-12) high = low + 1;
      const room = (high - low) * 0.06;
      const [g, w, h, y] = this.frameOf(name, box, low - room, high + room, [low, (low + high) / 2, high]);
      const most = Math.log(Math.max(curve.steps[curve.steps.length - 1], 2)), x = (s) => box[0] + (Math.log(Math.max(s, 0.7)) - Math.log(0.7)) / (most - Math.log(0.7)) * (w - box[0] - box[1]);
      g.fillStyle = c.soft;
      g.textAlign = "center";
      for (let p = 0; 10 ** p <= Math.exp(most) * 1.001; p += Math.max(1, Math.round(most / 2.303 / 4)))
        g.fillText(p < 4 ? `${10 ** p}` : "10" + `${p}`.replace(/[0-9]/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]), x(10 ** p), h - 8);
      g.textAlign = "left";
      if (end !== null) {
        g.strokeStyle = c.ink;
        g.setLineDash([6, 4]);
        g.lineWidth = 1.3;
        g.beginPath();
        g.moveTo(box[0], y(end));
        g.lineTo(w - box[1], y(end));
        g.stroke();
        g.setLineDash([]);
        g.fillStyle = c.soft;
        g.fillText(toOne ? "theory: 1" : `L* = ${number(end)}`, box[0] + 6, y(end) + (toOne ? 9 : -8));
      }
      const now = this.step();
      for (let s = curve.values.length - 1; s >= 0; s--) {
        const row = curve.values[s];
        for (const past of s ? [true] : [false, true]) {
          g.strokeStyle = s ? c.soft : c.link;
          g.globalAlpha = s ? 0.3 : past ? 1 : 0.3;
          g.lineWidth = s ? 1 : 2;
          g.beginPath();
          let open = false, lastX = 0, lastY = 0;
          for (let i = 0; i < row.length; i++) {
            if (row[i] === null) { open = false; continue; }
            if (past && !s && curve.steps[i] > now) break;
            lastX = x(curve.steps[i]); lastY = y(row[i]);
            open ? g.lineTo(lastX, lastY) : g.moveTo(lastX, lastY);
            open = true;
          }
          g.stroke();
          g.globalAlpha = 1;
        }
      }
      const row = curve.values[0];
      let i = 0;
      while (i < curve.steps.length - 1 && curve.steps[i + 1] <= now) i++;
      const j = Math.min(i + 1, row.length - 1), part = j > i ? clamp((now - curve.steps[i]) / (curve.steps[j] - curve.steps[i]), 0, 1) : 0;
      if (row[i] === null) return;
      const value = row[j] === null ? row[i] : row[i] + part * (row[j] - row[i]);
      g.fillStyle = c.hot;
      g.beginPath();
      g.arc(x(now), y(value), 4, 0, 7);
      g.fill();
      g.fillStyle = c.ink;
      g.textAlign = x(now) > w / 2 ? "right" : "left";
      g.fillText(number(value), x(now) + (x(now) > w / 2 ? -8 : 8), clamp(y(value) + (toOne ? 12 : -10), 8, h - 26));
      g.textAlign = "left";
    },
    drawScatter() {
      const box = [34, 10, 8, 20], [g, w, h, y] = this.frameOf("scatter", box, -0.03, 1.03, [0, 0.5, 1]), c = this.paint();
      const x = (v) => box[0] + ((v + 0.03) / 1.06) * (w - box[0] - box[1]);
      g.fillStyle = c.soft;
      g.textAlign = "center";
      for (const v of [0, 0.5, 1]) g.fillText(`${v}`, x(v), h - 8);
      g.fillText("theory", x(0.75), h - 8);
      g.textAlign = "left";
      g.strokeStyle = c.ink;
      g.setLineDash([6, 4]);
      g.beginPath();
      g.moveTo(x(0), y(0));
      g.lineTo(x(1), y(1));
      g.stroke();
      g.setLineDash([]);
      g.globalAlpha = 0.55;
      this.f.contexts.forEach((context, n) => context.tokens.forEach((t, k) => {
        g.fillStyle = t === context.label ? c.hot : c.link;
        g.fillRect(x(context.end[k]) - 2.5, y(this.all[n][k]) - 2.5, 5, 5);
      }));
      g.globalAlpha = 1;
    },
    heatSizes() {
      const c = this.$refs.heat, head = 44, left = 4;
      return { head, left, cell: [(c.clientWidth - left - 2) / Math.max(this.columns.length, 1), (c.clientHeight - head - 2) / Math.max(this.f.contexts.length, 1)] };
    },
    drawHeat() {
      const [g] = this.canvas("heat"), c = this.paint(), f = this.f, { head, left, cell } = this.heatSizes();
      const tall = Math.min(cell[1], 22);
      g.fillStyle = c.soft;
      g.font = `11px ${FONT}`;
      this.columns.forEach((t, j) => {
        g.save();
        g.translate(left + (j + 0.5) * cell[0], head - 4);
        g.rotate(-0.9);
        const name = f.tokens[t].name;
        g.fillText(name.length > 9 ? `${name.slice(0, 8)}…` : name, 0, 0);
        g.restore();
      });
      const column = new Map(this.columns.map((t, j) => [t, j]));
      f.contexts.forEach((context, n) => {
        const y = head + n * tall;
        context.tokens.forEach((t, k) => {
          const j = column.get(t);
          if (j === undefined) return;
          g.fillStyle = c.fill;
          g.fillRect(left + j * cell[0] + 0.5, y + 0.5, cell[0] - 1, tall - 1);
          g.globalAlpha = this.all[n][k];
          g.fillStyle = c.link;
          g.fillRect(left + j * cell[0] + 0.5, y + 0.5, cell[0] - 1, tall - 1);
          g.globalAlpha = 1;
          if (context.end[k] > 0.005) {
            g.strokeStyle = c.ink;
            g.globalAlpha = clamp(context.end[k], 0.25, 1);
            g.setLineDash([3, 2]);
            g.strokeRect(left + j * cell[0] + 1.5, y + 1.5, cell[0] - 3, tall - 3);
            g.setLineDash([]);
            g.globalAlpha = 1;
          }
        });
      });
    },
    heatAt(e) {
      const { head, left, cell } = this.heatSizes(), tall = Math.min(cell[1], 22);
      const n = Math.floor((e.offsetY - head) / tall), j = Math.floor((e.offsetX - left) / cell[0]);
      return n >= 0 && n < this.f.contexts.length ? [n, this.columns[j]] : null;
    },
    hover(e) {
      const found = this.heatAt(e);
      if (!found) return (this.tip = "");
      const context = this.f.contexts[found[0]], k = context.tokens.indexOf(found[1]);
      const words = context.tokens.map((t) => this.f.tokens[t].name).join(" · ");
      this.tip = k < 0 ? words : `${words}: ${this.f.tokens[found[1]].name} has ${number(this.all[found[0]][k])}, theory ${number(context.end[k])}`;
    },
    pick(e) {
      const found = this.heatAt(e);
      if (!found) return;
      this.order = [found[0], ...this.order.filter((n) => n !== found[0])];
      this.first = 0;
      this.draw();
    },
    save(kind) {
      const name = `training-step-${Math.round(this.step())}`;
      if (kind === "csv") {
        const quoted = (x) => `"${String(x).replaceAll('"', '""')}"`;
        const lines = this.f.contexts.flatMap((c, n) => c.tokens.map((t, k) =>
          [n + 1, quoted(this.f.tokens[t].name), c.counts[k], t === c.label ? 1 : 0, this.all[n][k], c.end[k]].join(",")));
        return saved(`${name}.csv`, ["context,token,count,next,attention,theory", ...lines].join("\r\n") + "\r\n", "text/csv");
      }
      const parts = ["graph", "rows", "loss", "cosine", "scatter", "heat"].map((x) => this.$refs[x]);
      const frame = this.$el.querySelector(".film-grid").getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
      const whole = document.createElement("canvas");
      whole.width = frame.width * ratio;
      whole.height = (frame.height + 24) * ratio;
      const g = whole.getContext("2d"), c = this.paint();
      g.scale(ratio, ratio);
      g.fillStyle = c.paper;
      g.fillRect(0, 0, frame.width, frame.height + 24);
      g.font = `13px ${FONT}`;
      g.fillStyle = c.ink;
      g.fillText(`${this.$refs.said.textContent}, after “${this.f.last}”`, 4, 16);
      for (const part of parts) {
        const at = part.getBoundingClientRect(), title = part.parentElement.querySelector("figcaption").childNodes[0].textContent.trim();
        g.drawImage(part, at.left - frame.left, at.top - frame.top + 24, at.width, at.height);
        g.fillText(title, at.left - frame.left, at.top - frame.top + 18);
      }
      saved(`${name}.png`, whole.toDataURL("image/png"));
    },
  },
};
