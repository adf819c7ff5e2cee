// One chart: ECharts in the colours of the page, redrawn when they change, saved as SVG or PNG.
import { echarts } from "nicegui-echart";
import { saved } from "saved";

const PALETTE = {
  light: {
    ink: "#1b1f24", soft: "#57606a", line: "#d0d7de", paper: "#ffffff", fill: "#f3f5f7",
    blue: "#0072b2", vermilion: "#d55e00", green: "#009e73", purple: "#cc79a7", orange: "#e69f00", sky: "#56b4e9",
  },
  dark: {
    ink: "#e6edf3", soft: "#9ba7b4", line: "#39424d", paper: "#14181d", fill: "#1e242b",
    blue: "#56b4e9", vermilion: "#ff8a4c", green: "#2fd0a0", purple: "#e8a3c8", orange: "#ffc04d", sky: "#8fd0f5",
  },
};
const SERIES = ["blue", "vermilion", "green", "purple", "orange", "sky", "soft"];

export function palette() {
  return PALETTE[document.body.classList.contains("body--dark") ? "dark" : "light"];
}

function number(x) {
  if (typeof x !== "number") return x === null || x === undefined ? "–" : `${x}`;
  if (Number.isInteger(x)) return x.toLocaleString("en");
  return Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? `${Number(x.toPrecision(5))}` : x.toExponential(3);
}

// On a logarithmic axis: 0.01, 1, 100, then 10⁴; all zeros of 10⁻¹² would push the chart aside.
function power(x) {
  const e = Math.round(Math.log10(x));
  if (Math.abs(e) < 4 || Math.abs(Math.log10(x) - e) > 1e-9) return number(x);
  return "10" + `${e}`.replace(/[-0-9]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
}

// "$blue" becomes the page's blue where a colour stands; a token of that name stays itself.
function painted(value, colours, key = "") {
  if (typeof value === "string")
    return /(color|fill|stroke)$/i.test(key) && value.startsWith("$") ? (colours[value.slice(1)] ?? value) : value;
  if (Array.isArray(value)) return value.map((v) => painted(v, colours, key));
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, colours, k)]));
  return value;
}

function axis(given, colours) {
  return {
    ...given,
    axisLine: { lineStyle: { color: colours.soft }, ...given.axisLine },
    axisLabel: {
      color: colours.soft, hideOverlap: true, ...(given.type === "log" ? { formatter: power } : {}), ...given.axisLabel,
    },
    nameTextStyle: { color: colours.soft, ...given.nameTextStyle },
    splitLine: { lineStyle: { color: colours.line, opacity: 0.6 }, ...given.splitLine },
  };
}

const all = (x) => (x === undefined ? [] : Array.isArray(x) ? x : [x]);

function complete(options, colours, still) {
  const o = painted(options, colours);
  for (const name of ["xAxis", "yAxis"]) if (o[name]) o[name] = all(o[name]).map((a) => axis(a, colours));
  const calm = still || matchMedia("(prefers-reduced-motion: reduce)").matches;
  return {
    backgroundColor: "transparent",
    color: SERIES.map((name) => colours[name]),
    animationDuration: 250,
    ...(calm ? { animation: false } : {}),
    ...o,
    textStyle: { color: colours.ink, fontFamily: "Roboto, system-ui, sans-serif", ...o.textStyle },
    legend: o.legend && { textStyle: { color: colours.ink }, inactiveColor: colours.line, ...o.legend },
    visualMap: o.visualMap && all(o.visualMap).map((v) => ({ textStyle: { color: colours.soft }, ...v })),
    tooltip: o.tooltip && {
      valueFormatter: number, confine: true, backgroundColor: colours.paper, borderColor: colours.line,
      textStyle: { color: colours.ink }, ...o.tooltip,
    },
  };
}

// Files: a chart as SVG, PNG or PDF, each with its title and its numbers inside.

const text = (s) => new TextEncoder().encode(s);

function joined(parts) {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) { all.set(p, at); at += p.length; }
  return all;
}

function bytes(url) {
  return Uint8Array.from(atob(url.split(",")[1]), (c) => c.charCodeAt(0));
}

// An SVG picture with its numbers in a note of its own.
function svg(drawn, title, csv) {
  const escape = (s) => s.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const note = `<title>${escape(title)}</title><metadata>${escape(csv)}</metadata>`;
  return drawn.replace(/(<svg[^>]*>)/, (_, head) => head + note);
}

// A PNG picture with a title and its numbers in chunks of text.
function png(url, title, csv) {
  const picture = bytes(url), head = picture.slice(0, 33); // signature and IHDR
  const chunk = (keyword, value) => {
    const body = joined([text("iTXt"), text(keyword), new Uint8Array(5), text(value)]);
    const size = new DataView(new ArrayBuffer(4)), sum = new DataView(new ArrayBuffer(4));
    size.setUint32(0, body.length - 4);
    sum.setUint32(0, crc(body));
    return joined([new Uint8Array(size.buffer), body, new Uint8Array(sum.buffer)]);
  };
  return joined([head, chunk("Title", title), chunk("Data", csv), picture.slice(33)]);
}

function crc(body) {
  let c = ~0;
  for (const b of body) {
    c ^= b;
    for (let i = 0; i < 8; i++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
  }
  return ~c >>> 0;
}

// A PDF of one page: the picture, its title, and its numbers as an attached file.
function pdf(url, width, height, ratio, title, csv, name) {
  const jpeg = bytes(url), data = text(csv);
  const hex = (s) => "<FEFF" + [...s].flatMap((c) => {
    const p = c.codePointAt(0);
    return p < 0x10000 ? [p] : [0xd800 + ((p - 0x10000) >> 10), 0xdc00 + ((p - 0x10000) & 0x3ff)];
  }).map((u) => u.toString(16).padStart(4, "0")).join("") + ">";
  const draw = text(`q ${width} 0 0 ${height} 0 0 cm /P Do Q`);
  const stream = (said, body) => [text(`<< ${said} /Length ${body.length} >>\nstream\n`), body, text("\nendstream")];
  const objects = [
    [text(`<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Names [${hex(name)} 6 0 R] >> >> >>`)],
    [text("<< /Type /Pages /Kids [3 0 R] /Count 1 >>")],
    [text(`<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${width} ${height}] /Contents 5 0 R ` +
      "/Resources << /XObject << /P 4 0 R >> >> >>")],
    stream(`/Type /XObject /Subtype /Image /Width ${Math.round(width * ratio)} /Height ${Math.round(height * ratio)} ` +
      "/ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /DCTDecode", jpeg),
    stream("", draw),
    [text(`<< /Type /Filespec /F ${hex(name)} /UF ${hex(name)} /EF << /F 7 0 R >> >>`)],
    stream("/Type /EmbeddedFile /Subtype /text#2Fcsv", data),
    [text(`<< /Title ${hex(title)} >>`)],
  ];
  const parts = [text("%PDF-1.7\n")], places = [];
  const length = () => parts.reduce((n, p) => n + p.length, 0);
  objects.forEach((object, i) => {
    places.push(length());
    parts.push(text(`${i + 1} 0 obj\n`), ...object, text("\nendobj\n"));
  });
  const start = length(), n = objects.length + 1;
  const rows = places.map((p) => `${`${p}`.padStart(10, "0")} 00000 n \n`).join("");
  parts.push(text(`xref\n0 ${n}\n0000000000 65535 f \n${rows}trailer\n<< /Size ${n} /Root 1 0 R /Info 8 0 R >>\n` +
    `startxref\n${start}\n%%EOF\n`));
  return joined(parts);
}

// As a file shows it: light, still, under its title.
const ROOM = 30; // pixels for the title
function titled(options, title) {
  const o = complete(options, PALETTE.light, true);
  const lower = (part) => (part && typeof (part.top ?? 0) === "number" ? { ...part, top: (part.top ?? 0) + ROOM } : part);
  return {
    ...o,
    backgroundColor: "#ffffff",
    title: { text: title, left: "center", top: 6, textStyle: { fontSize: 15, color: PALETTE.light.ink } },
    grid: all(o.grid).map(lower),
    ...(o.legend ? { legend: lower(o.legend) } : {}),
  };
}

export default {
  template: `<div role="img" :aria-label="said || label" :tabindex="can ? 0 : undefined" @keydown="key" @blur="leave"></div>`,
  props: { options: Object, label: String, renderer: String, can: Boolean },
  data() {
    return { said: "" };
  },
  async mounted() {
    await new Promise((resolve) => setTimeout(resolve, 0)); // the page's classes come a moment later
    this.chart = echarts.init(this.$el, null, { renderer: this.renderer || "canvas" });
    this.chart.on("click", (e) => {
      const { componentType, seriesIndex, seriesName, dataIndex, name, value } = e;
      this.$emit("point", { componentType, seriesIndex, seriesName, dataIndex, name, value });
    });
    this.sizes = new ResizeObserver(() => this.chart.resize());
    this.sizes.observe(this.$el);
    this.colours = new MutationObserver(() => this.redraw());
    this.colours.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.update_chart();
  },
  beforeUnmount() {
    this.sizes?.disconnect();
    this.colours?.disconnect();
    this.chart?.dispose();
  },
  methods: {
    update_chart() {
      this.patches = [];
      this.leave();
      this.redraw();
    },
    redraw() {
      if (!this.chart) return setTimeout(() => this.redraw(), 20);
      this.chart.setOption(complete(this.options, palette()), { notMerge: true });
      for (const patch of this.patches ?? []) this.chart.setOption(painted(patch, palette()));
    },
    // Where points can be chosen they are one stop of the Tab key: arrows go from point to point, Enter takes one.
    key(e) {
      if (!this.can || !this.chart || e.altKey || e.ctrlKey || e.metaKey) return;
      const places = this.chart.getOption().series.flatMap((s, i) => (s.silent ? [] : s.data.map((_, k) => [i, k])));
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (step) this.walk(places, Math.min(Math.max((this.at ?? (step > 0 ? -1 : places.length)) + step, 0), places.length - 1));
      else if (e.key === "Home" || e.key === "End") this.walk(places, e.key === "Home" ? 0 : places.length - 1);
      else if (e.key === "Escape") this.leave();
      else if ((e.key === "Enter" || e.key === " ") && places[this.at]) {
        const [seriesIndex, dataIndex] = places[this.at], { name, value } = this.point(seriesIndex, dataIndex);
        this.$emit("point", { componentType: "series", seriesIndex, dataIndex, name, value });
      } else return;
      e.preventDefault();
    },
    point(series, index) {
      const one = this.chart.getOption().series[series].data[index];
      return one && !Array.isArray(one) && typeof one === "object" ? one : { value: one };
    },
    walk(places, at) {
      if (!places.length) return;
      const before = places[this.at], [seriesIndex, dataIndex] = places[at], { name, value } = this.point(seriesIndex, dataIndex);
      if (before) this.chart.dispatchAction({ type: "downplay", seriesIndex: before[0], dataIndex: before[1] });
      this.chart.dispatchAction({ type: "highlight", seriesIndex, dataIndex });
      this.chart.dispatchAction({ type: "showTip", seriesIndex, dataIndex });
      this.at = at;
      this.said = `${this.label}: ${name || all(value).map(number).join(", ")}, ${at + 1} of ${places.length}`;
    },
    leave() {
      if (this.at === undefined) return;
      this.at = undefined;
      this.said = "";
      this.chart.dispatchAction({ type: "downplay" });
      this.chart.dispatchAction({ type: "hideTip" });
    },
    // Parts of the options that change often (a marker, one series), without sending the rest again.
    patch(options) {
      if (!this.chart) return setTimeout(() => this.patch(options), 20);
      const unlike = (other) => `${Object.keys(other)}` !== `${Object.keys(options)}`;
      this.patches = [...(this.patches ?? []).filter(unlike), options]; // the newest of each kind is enough
      this.chart.setOption(painted(options, palette()));
    },
    // Other numbers for the points of one series, many times a second.
    replace(id, values) {
      const { data } = this.options.series.find((s) => s.id === id);
      this.patch({ series: [{ id, data: data.map((point, i) => ({ ...point, value: values[i] })) }] });
    },
    save(kind, stem, title, csv) {
      const width = this.$el.clientWidth, height = this.$el.clientHeight + ROOM, name = `${stem}.${kind}`;
      const vector = kind === "svg", ratio = kind === "pdf" ? 3 : 2;
      const drawn = echarts.init(vector ? null : document.createElement("div"), null,
        vector ? { renderer: "svg", ssr: true, width, height } : { renderer: "canvas", width, height });
      drawn.setOption(titled(this.options, title));
      for (const patch of this.patches ?? []) drawn.setOption(painted(patch, PALETTE.light));
      const picture = (type) => drawn.getDataURL({ type, pixelRatio: ratio, backgroundColor: "#ffffff" });
      if (vector) saved(name, svg(drawn.renderToSVGString(), title, csv), "image/svg+xml");
      else if (kind === "png") saved(name, png(picture("png"), title, csv), "image/png");
      else saved(name, pdf(picture("jpeg"), width, height, ratio, title, csv, `${stem}.csv`), "application/pdf");
      drawn.dispose();
    },
  },
};
