// A field that suggests while one types: the server says what it finds, arrows or the pointer choose.
export default {
  template: `
    <div class="find" @keydown="key">
      <q-input dense outlined ref="field" v-model="text" :label="label" role="combobox" aria-autocomplete="list"
        autocomplete="off" spellcheck="false" :aria-label="label" :aria-expanded="open" :aria-controls="list"
        :aria-activedescendant="open && at >= 0 ? list + at : undefined"
        @update:model-value="typed" @focus="begin" @blur="end">
        <template v-slot:append><q-icon name="search" aria-hidden="true" size="xs" /></template>
      </q-input>
      <ul v-if="open && found" class="find-list" role="listbox" :id="list" :aria-label="label">
        <li v-for="(row, i) in found" :key="i" :id="list + i" role="option" :aria-selected="i === at"
          :class="{ here: i === at }" @mousedown.prevent="choose(row.value)" @mousemove="at = i">
          <span>{{ row.name }}</span><span class="note">{{ row.note }}</span>
        </li>
        <li v-if="!found.length" class="note none">nothing found</li>
      </ul>
    </div>`,
  props: { label: String, value: String, found: Array },
  data() {
    return { text: this.value, open: false, at: -1, list: `find-${Math.random().toString(36).slice(2)}` };
  },
  watch: {
    value(now) {
      this.text = now;
    },
    found() {
      this.at = -1;
    },
  },
  methods: {
    begin() {
      this.$refs.field.select();
      this.$emit("search", "");
      this.open = true;
    },
    end() {
      this.open = false;
      this.text = this.value;
    },
    typed() {
      this.open = true;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.$emit("search", this.text), 100);
    },
    choose(value) {
      clearTimeout(this.timer);
      this.open = false;
      if (value === "") return;
      this.text = value;
      this.$emit("choose", value);
    },
    key(e) {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        this.open = true;
        const n = this.found?.length ?? 0;
        this.at = n ? (this.at + (e.key === "ArrowDown" ? 1 : this.at < 0 ? 0 : -1) + n) % n : -1;
        this.$nextTick(() => document.getElementById(this.list + this.at)?.scrollIntoView({ block: "nearest" }));
      } else if (e.key === "Enter") this.choose(this.open && this.at >= 0 ? this.found[this.at].value : `${this.text ?? ""}`);
      else if (e.key === "Escape") this.open = false;
      else return;
      e.preventDefault();
    },
  },
};
