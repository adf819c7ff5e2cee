// A run of training, played in the browser: scores are sent once, every frame is computed and drawn here.
// A place in the run is a number of snapshots, which lie evenly on a log axis; between two, scores are interpolated.
import { clamp, player, unpacked } from "player";
import { saved } from "saved";

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

// What draws on a canvas. The look of a line, an area or a text is said with it, and holds for it alone.
class Pen {
  constructor(g) {
    this.g = g;
  }
  // `path` traces what is drawn.
  line(path, colour, { width = 1, dash = [], alpha = 1 } = {}) {
    const g = Object.assign(this.g, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha });
    g.setLineDash(dash);
    g.beginPath();
    path(g);
    g.stroke();
  }
  straight(x0, y0, x1, y1, colour, look) {
    this.line((g) => { g.moveTo(x0, y0); g.lineTo(x1, y1); }, colour, look);
  }
  area(path, colour, alpha = 1) {
    const g = Object.assign(this.g, { fillStyle: colour, globalAlpha: alpha });
    g.beginPath();
    path(g);
    g.fill();
  }
  box(x, y, width, height, colour, alpha = 1) {
    Object.assign(this.g, { fillStyle: colour, globalAlpha: alpha }).fillRect(x, y, width, height);
  }
  width(text, size, bold = false) {
    this.g.font = `${bold ? "bold " : ""}${size}px ${FONT}`;
    return this.g.measureText(text).width;
  }
  // A text; one of more than `most` pixels is cut.
  text(text, x, y, colour, { size = 11, bold = false, align = "left", most = Infinity } = {}) {
    let shown = text;
    while (this.width(shown, size, bold) > most && text.length > 1) shown = `${(text = text.slice(0, -1))}…`;
    Object.assign(this.g, { fillStyle: colour, globalAlpha: 1, textAlign: align }).fillText(shown, x, y);
  }
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
      g.textBaseline = "middle";
      return [new Pen(g), w, h];
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
    places(pen, w, h) {
      if (this.laid?.w === w && this.laid.h === h) return this.laid;
      const f = this.f, nodes = f.tokens.map((t, i) => ({ ...t, i })).filter((t) => t.level !== null);
      const levels = [...new Set(nodes.map((n) => n.level))].sort((a, b) => a - b);
      const own = levels.map((level) => nodes.filter((n) => n.level === level).sort((a, b) => a.component - b.component || a.i - b.i));
      const columns = own.map((some) => Math.ceil(some.length / TALLEST)), all = columns.reduce((a, b) => a + b, 0);
      const wide = Math.max(...nodes.map((n) => n.name.length)), size = wide * all > w / 9 ? 11 : 12;
      const most = w / Math.max(all, 1) - 12;
      for (const n of nodes) {
        n.text = n.name;
        while (n.text.length > 4 && pen.width(n.text, size) + 18 > most) n.text = `${n.text.slice(0, -2)}…`;
        n.half = Math.max(pen.width(n.text, size) / 2 + 9, 17);
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
      const [pen, w, h] = this.canvas("graph"), c = this.paint(), f = this.f;
      const { nodes, size, high, at } = this.places(pen, w, h);
      if (!nodes.length) return;
      // Ties stand in a frame.
      const groups = new Map();
      for (const n of nodes) groups.set(n.component, [...(groups.get(n.component) ?? []), n]);
      for (const group of groups.values()) {
        if (group.length < 2) continue;
        const xs = group.flatMap((n) => [n.x - n.half, n.x + n.half]), left = Math.min(...xs) - 7;
        const ys = group.map((n) => n.y), top = Math.min(...ys) - high - 6;
        const wide = Math.max(...xs) + 7 - left, tall = Math.max(...ys) + high + 6 - top;
        pen.line((g) => g.roundRect(left, top, wide, tall, 12), c.link, { dash: [5, 4], alpha: 0.6 });
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
        let colour = c.link, look;
        if (e.tied) { // settled where the odds are those of Luce
          const off = Math.abs(d - e.odds), settled = Math.exp(-2 * off);
          look = { alpha: 0.35 + 0.65 * settled, width: (1 + 2 * settled) * (fewTies ? 1 : 0.5), dash: off < 0.1 ? [] : [4, 3] };
        } else { // hard where nothing of the attention is left below
          const hard = 1 - Math.exp(-Math.max(d, 0));
          colour = d < 0 ? c.hot : c.ink;
          look = { alpha: 0.15 + 0.7 * (d < 0 ? 0.7 : hard), width: 0.8 + 1.8 * hard, dash: d <= 0 ? [3, 3] : [] };
        }
        pen.line((g) => { g.moveTo(sx, sy); g.quadraticCurveTo(mx, my, ex, ey); }, colour, look);
        if (!e.tied) {
          const angle = Math.atan2(ey - my, ex - mx), long = 5 + look.width;
          pen.line((g) => {
            for (const s of [0.4, -0.4]) { g.moveTo(ex, ey); g.lineTo(ex - long * Math.cos(angle + s), ey - long * Math.sin(angle + s)); }
          }, colour, { ...look, dash: [] });
        }
        const text = e.tied ? `${number(Math.exp(d))} : 1 → ${number(Math.exp(e.odds))}` : share(Math.exp(-d));
        if (e.tied ? !beside && fewTies : few && span === 1) words.push([(sx + 2 * mx + ex) / 4, (sy + 2 * my + ey) / 4, text, e.tied]);
      }
      // Of all these tokens, side by side once, the share of each.
      const top = Math.max(...nodes.map((n) => this.now[n.i])), mass = nodes.map((n) => Math.exp(this.now[n.i] - top));
      const sum = mass.reduce((a, b) => a + b, 0);
      for (const [x, y, text, tied] of words) {
        const wide = pen.width(text, 11) + 6;
        pen.box(x - wide / 2, y - 7, wide, 14, c.paper, 0.9);
        pen.text(text, x, y, tied ? c.link : c.soft, { align: "center" });
      }
      nodes.forEach((n, j) => {
        const pill = (g) => g.roundRect(n.x - n.half, n.y - high, 2 * n.half, 2 * high, high), own = n.name === f.last;
        pen.area(pill, c.paper);
        pen.area(pill, c.link, 0.5 * (mass[j] / sum));
        pen.line(pill, own ? c.hot : c.soft, { width: own ? 1.6 : 1 });
        pen.text(n.text, n.x, n.y, c.ink, { size, align: "center" });
      });
    },
    drawRows() {
      const [pen, w, h] = this.canvas("rows"), c = this.paint(), f = this.f;
      const names = Math.min(110, w * 0.28), x = names + 8, wide = w - x - 44;
      const tall = (n) => ROW * (1 + this.shown[n].length + (this.shown[n].length < f.contexts[n].tokens.length)) + 9;
      const page = [];
      for (let i = this.first, room = h; i < this.order.length && (room -= tall(this.order[i])) >= -9; i++) page.push(this.order[i]);
      this.rows = Math.max(page.length, 1);
      let top = 0;
      for (const n of page) {
        const context = f.contexts[n], now = this.all[n], row = ROW;
        const words = context.tokens.map((t, k) => f.tokens[t].name + (context.counts[k] > 1 ? ` ×${context.counts[k]}` : ""));
        const many = `(${context.rows.toLocaleString("en")} ${context.rows === 1 ? "row" : "rows"})`;
        pen.text(`${words.join(" · ")} ${many}`, 2, top + row / 2, c.soft, { most: w - 4 });
        const bars = this.shown[n].map((k) => [f.tokens[context.tokens[k]].name, now[k], context.end[k], context.tokens[k] === context.label]);
        const others = context.tokens.length - bars.length;
        if (others > 0) {
          const rest = (values) => Math.max(1 - this.shown[n].reduce((sum, k) => sum + values[k], 0), 0);
          bars.push([`${others} others`, rest(now), rest(context.end), false]);
        }
        bars.forEach(([name, share, end, label], j) => {
          const y = top + (j + 1) * row;
          const look = { size: 12, bold: label, align: "right", most: names };
          pen.text((label ? "▸ " : "") + name, names + 2, y + row / 2, c.ink, look);
          pen.box(x, y + 2, wide, row - 4, c.fill);
          pen.box(x, y + 2, wide * share, row - 4, c.link);
          pen.line((g) => g.rect(x, y + 2, Math.max(wide * end, 0.5), row - 4), c.ink, { width: 1.2, dash: [4, 3] });
          pen.text(share < 0.0005 ? "0" : share.toFixed(3), x + wide + 5, y + row / 2, c.soft);
        });
        top += tall(n);
      }
    },
    frameOf(name, box, low, high, ticks) {
      const [pen, w, h] = this.canvas(name), c = this.paint();
      const [left, right, top, bottom] = box, y = (v) => h - bottom - ((v - low) / (high - low)) * (h - top - bottom);
      for (const v of ticks) {
        pen.straight(left, y(v), w - right, y(v), c.line);
        pen.text(number(v), left - 4, y(v), c.soft, { align: "right" });
      }
      return [pen, w, h, y];
    },
    drawCurve(name, curve, toOne) {
      const c = this.paint(), box = [46, 12, 10, 20], values = curve.values.flat().filter((v) => v !== null);
      if (!values.length) {
        const [pen, w, h] = this.canvas(name), said = toOne ? "no token strictly outranks another" : "not recorded";
        return pen.text(said, w / 2, h / 2, c.soft, { size: 12, align: "center" });
      }
      const end = curve.end, all = end === null ? values : [...values, end];
      let low = Math.min(...all), high = Math.max(...all);
      if (high - low < 1e-12) high = low + 1;
      const room = (high - low) * 0.06;
      const [pen, w, h, y] = this.frameOf(name, box, low - room, high + room, [low, (low + high) / 2, high]);
      const most = Math.log(Math.max(curve.steps[curve.steps.length - 1], 2)), x = (s) => box[0] + (Math.log(Math.max(s, 0.7)) - Math.log(0.7)) / (most - Math.log(0.7)) * (w - box[0] - box[1]);
      for (let p = 0; 10 ** p <= Math.exp(most) * 1.001; p += Math.max(1, Math.round(most / 2.303 / 4)))
        pen.text(p < 4 ? `${10 ** p}` : "10" + `${p}`.replace(/[0-9]/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]), x(10 ** p), h - 8, c.soft, { align: "center" });
      if (end !== null) {
        pen.straight(box[0], y(end), w - box[1], y(end), c.ink, { width: 1.3, dash: [6, 4] });
        pen.text(toOne ? "theory: 1" : `L* = ${number(end)}`, box[0] + 6, y(end) + (toOne ? 9 : -8), c.soft);
      }
      const now = this.step();
      for (let s = curve.values.length - 1; s >= 0; s--) {
        const row = curve.values[s];
        for (const past of s ? [true] : [false, true]) {
          pen.line((g) => {
            let open = false;
            for (let i = 0; i < row.length && !(past && !s && curve.steps[i] > now); i++) {
              if (row[i] !== null) g[open ? "lineTo" : "moveTo"](x(curve.steps[i]), y(row[i]));
              open = row[i] !== null;
            }
          }, s ? c.soft : c.link, { width: s ? 1 : 2, alpha: !s && past ? 1 : 0.3 });
        }
      }
      const row = curve.values[0];
      let i = 0;
      while (i < curve.steps.length - 1 && curve.steps[i + 1] <= now) i++;
      const j = Math.min(i + 1, row.length - 1), part = j > i ? clamp((now - curve.steps[i]) / (curve.steps[j] - curve.steps[i]), 0, 1) : 0;
      if (row[i] === null) return;
      const value = row[j] === null ? row[i] : row[i] + part * (row[j] - row[i]);
      pen.area((g) => g.arc(x(now), y(value), 4, 0, 7), c.hot);
      const right = x(now) > w / 2, under = clamp(y(value) + (toOne ? 12 : -10), 8, h - 26);
      pen.text(number(value), x(now) + (right ? -8 : 8), under, c.ink, { align: right ? "right" : "left" });
    },
    drawScatter() {
      const box = [34, 10, 8, 20], [pen, w, h, y] = this.frameOf("scatter", box, -0.03, 1.03, [0, 0.5, 1]), c = this.paint();
      const x = (v) => box[0] + ((v + 0.03) / 1.06) * (w - box[0] - box[1]);
      for (const v of [0, 0.5, 1]) pen.text(`${v}`, x(v), h - 8, c.soft, { align: "center" });
      pen.text("theory", x(0.75), h - 8, c.soft, { align: "center" });
      pen.straight(x(0), y(0), x(1), y(1), c.ink, { dash: [6, 4] });
      this.f.contexts.forEach((context, n) => context.tokens.forEach((t, k) => {
        const colour = t === context.label ? c.hot : c.link;
        pen.box(x(context.end[k]) - 2.5, y(this.all[n][k]) - 2.5, 5, 5, colour, 0.55);
      }));
    },
    heatSizes() {
      const c = this.$refs.heat, head = 44, left = 4;
      return { head, left, cell: [(c.clientWidth - left - 2) / Math.max(this.columns.length, 1), (c.clientHeight - head - 2) / Math.max(this.f.contexts.length, 1)] };
    },
    drawHeat() {
      const [pen] = this.canvas("heat"), { g } = pen, c = this.paint(), f = this.f, { head, left, cell } = this.heatSizes();
      const tall = Math.min(cell[1], 22);
      this.columns.forEach((t, j) => {
        g.save();
        g.translate(left + (j + 0.5) * cell[0], head - 4);
        g.rotate(-0.9);
        const name = f.tokens[t].name;
        pen.text(name.length > 9 ? `${name.slice(0, 8)}…` : name, 0, 0, c.soft);
        g.restore();
      });
      const column = new Map(this.columns.map((t, j) => [t, j]));
      f.contexts.forEach((context, n) => {
        const y = head + n * tall;
        context.tokens.forEach((t, k) => {
          const j = column.get(t);
          if (j === undefined) return;
          const x = left + j * cell[0];
          pen.box(x + 0.5, y + 0.5, cell[0] - 1, tall - 1, c.fill);
          pen.box(x + 0.5, y + 0.5, cell[0] - 1, tall - 1, c.link, this.all[n][k]);
          const look = { dash: [3, 2], alpha: clamp(context.end[k], 0.25, 1) };
          if (context.end[k] > 0.005) pen.line((g) => g.rect(x + 1.5, y + 1.5, cell[0] - 3, tall - 3), c.ink, look);
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
      const g = whole.getContext("2d"), pen = new Pen(g), c = this.paint();
      g.scale(ratio, ratio);
      pen.box(0, 0, frame.width, frame.height + 24, c.paper);
      pen.text(`${this.$refs.said.textContent}, after “${this.f.last}”`, 4, 16, c.ink, { size: 13 });
      for (const part of parts) {
        const at = part.getBoundingClientRect(), title = part.parentElement.querySelector("figcaption").childNodes[0].textContent.trim();
        g.drawImage(part, at.left - frame.left, at.top - frame.top + 24, at.width, at.height);
        pen.text(title, at.left - frame.left, at.top - frame.top + 18, c.ink, { size: 13 });
      }
      saved(`${name}.png`, whole.toDataURL("image/png"));
    },
  },
};
