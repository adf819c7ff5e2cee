// Words as running text: shaded, struck through, marked; one stop of the Tab key, arrows go from word to word.
export default {
  template: `
    <div class="text" :role="can ? 'listbox' : 'group'" :aria-label="label" :tabindex="can ? 0 : undefined"
      :aria-activedescendant="can && at >= 0 ? name + at : undefined" @keydown="key" @blur="at = -1">
      <template v-for="(w, i) in words" :key="i"><span v-if="w.k?.includes('is-next')" class="text-arrow"
        aria-hidden="true">→</span><span class="text-word" :id="name + i" :title="w.h" :style="w.p ? { '--shade': w.p } : undefined"
        :class="[w.k, { can, shaded: w.p, here: i === at, chosen: i === chosen }]" :role="can ? 'option' : undefined"
        :aria-selected="can ? i === chosen : undefined" :aria-label="can ? [w.t, w.h].filter(Boolean).join(', ') : undefined"
        @click="can && $emit('choose', i)"><component :is="w.s ? 's' : 'span'">{{ w.t }}</component><small
        v-if="w.n">{{ w.n }}</small></span>{{ ' ' }}<br v-if="w.e" /></template>
    </div>`,
  props: { label: String, words: Array, can: Boolean, chosen: Number },
  data() {
    return { at: -1, name: `text-${Math.random().toString(36).slice(2)}-` };
  },
  methods: {
    key(e) {
      if (!this.can || e.altKey || e.ctrlKey || e.metaKey) return;
      const n = this.words.length, step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (step) this.at = this.at < 0 ? Math.max(this.chosen, 0) : Math.min(Math.max(this.at + step, 0), n - 1);
      else if (e.key === "Home" || e.key === "End") this.at = e.key === "Home" ? 0 : n - 1;
      else if (e.key === "Escape") this.at = -1;
      else if ((e.key === "Enter" || e.key === " ") && this.at >= 0) this.$emit("choose", this.at);
      else return;
      e.preventDefault();
      this.$nextTick(() => document.getElementById(this.name + this.at)?.scrollIntoView({ block: "nearest" }));
    },
  },
};
