// The scrubber over recorded time: moves the bars and the markers of all sides in the browser, without the server.
import { clamp, player, unpacked } from "player";

const SETTLED = 400; // milliseconds after the last move before the server is told where it ended

export default {
  mixins: [player],
  template: `
    <div class="scrubber">
      <q-btn flat round dense size="sm" :icon="playing ? 'pause' : 'play_arrow'" aria-label="Play or pause"
        @click="toggle"><q-tooltip>Play or pause</q-tooltip></q-btn>
      <input ref="slider" type="range" min="0" :max="last()" step="1" aria-label="Recorded time"
        @input="go(+$event.target.value)" />
      <span class="when" ref="when"></span>
    </div>`,
  props: { recorded: Object, start: Number },
  mounted() {
    this.read();
  },
  beforeUnmount() {
    clearTimeout(this.settling);
    cancelAnimationFrame(this.later);
  },
  watch: {
    recorded() {
      this.read();
    },
  },
  methods: {
    last() {
      return this.recorded.records.length - 1;
    },
    // Another class, level or rate is shown at the same place, where one may be moving on: the server knows where it
    // settled, not where it is.
    read() {
      const { classes, records, moments, sides } = JSON.parse(JSON.stringify(this.recorded)); // out of Vue's reach
      if (this.classes !== classes || this.records.length !== records.length) this.at = this.settled = this.start;
      Object.assign(this, { classes, records, moments });
      this.sides = sides.map((side) => ({ ...side, attention: unpacked(side.attention) }));
      cancelAnimationFrame(this.later);
      this.later = requestAnimationFrame(() => this.go(this.at)); // after the charts, which change with it
    },
    go(at) {
      this.at = clamp(at, 0, this.last());
      for (const side of this.sides) this.draw(side);
      const said = this.moments[Math.round(this.at)], { slider, when } = this.$refs;
      slider.value = this.at;
      slider.setAttribute("aria-valuetext", said);
      when.textContent = said;
      clearTimeout(this.settling);
      if (!this.playing) this.settling = setTimeout(() => this.settle(), SETTLED);
    },
    rest() {
      this.go(Math.round(this.at));
    },
    settle() {
      const at = Math.round(this.at);
      if (at !== this.settled) this.$emit("settle", this.records[at]);
      this.settled = at;
    },
    draw(side) {
      const i = Math.floor(this.at), j = Math.min(i + 1, this.last()), share = this.at - i;
      const between = (a, b) => a + share * (b - a), n = side.attention.length / this.records.length;
      const row = (k) => side.attention.subarray(k * n, (k + 1) * n), next = row(j);
      getElement(side.bars)?.replace("now", Array.from(row(i), (x, l) => between(x, next[l])));
      const place = (id, shares) => document.getElementById(`c${id}`)?.style.setProperty("--at", between(shares[i], shares[j]));
      place(side.heat, side.columns);
      for (const id of side.curves) place(id, side.points);
      const title = document.getElementById(`c${side.title}`)?.firstChild; // the text that the server writes too
      if (title) title.data = title.data.replace(/t = .*/, this.moments[Math.round(this.at)]);
    },
  },
};
