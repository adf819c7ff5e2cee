// One chart: ECharts in the colours of the page, redrawn when they change, saved as SVG or PNG.
import { echarts } from "nicegui-echart";

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

export function saved(name, text, type) {
  const link = document.createElement("a");
  link.href = text.startsWith("data:") ? text : URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export default {
  template: "<div role='img' :aria-label='label' tabindex='0'></div>",
  props: { options: Object, label: String, renderer: String },
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
      this.redraw();
    },
    redraw() {
      if (!this.chart) return setTimeout(() => this.redraw(), 20);
      this.chart.setOption(complete(this.options, palette()), { notMerge: true });
      for (const patch of this.patches ?? []) this.chart.setOption(painted(patch, palette()));
    },
    // Parts of the options that change often (a marker, one series), without sending the rest again.
    patch(options) {
      if (!this.chart) return setTimeout(() => this.patch(options), 20);
      const unlike = (other) => `${Object.keys(other)}` !== `${Object.keys(options)}`;
      this.patches = [...(this.patches ?? []).filter(unlike), options]; // the newest of each kind is enough
      this.chart.setOption(painted(options, palette()));
    },
    save(kind, name) {
      const { clientWidth: width, clientHeight: height } = this.$el;
      if (kind === "png")
        return saved(name, this.chart.getDataURL({ pixelRatio: 2, backgroundColor: palette().paper }));
      const drawn = echarts.init(null, null, { renderer: "svg", ssr: true, width, height });
      drawn.setOption({ ...complete(this.options, PALETTE.light, true), backgroundColor: "#ffffff" });
      for (const patch of this.patches ?? []) drawn.setOption(painted(patch, PALETTE.light));
      saved(name, drawn.renderToSVGString(), "image/svg+xml");
      drawn.dispose();
    },
  },
};
