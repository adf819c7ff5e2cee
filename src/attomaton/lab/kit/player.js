// Plays what was recorded in the browser alone. A component that mixes this in has the places 0 to `last()` and stands
// at `at`; it draws a place, or what is between two, in `go(at)`, and `rest()` tells it that playing has ended.

const SPEED = 20; // places a second at speed 1: 200 of them in 10 seconds

export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// Numbers as `packed` of player.py writes them.
export function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

export const player = {
  data() {
    return { playing: false, speed: 1 };
  },
  beforeUnmount() {
    cancelAnimationFrame(this.frame);
  },
  methods: {
    toggle() {
      this.playing ? this.pause() : this.play();
    },
    play() {
      if (this.at >= this.last()) this.at = 0;
      this.playing = true;
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches; // then from place to place
      let before = performance.now(), part = 0;
      const next = (time) => {
        if (!this.playing) return;
        const moved = this.at + part + (Math.max(time - before, 0) / 1000) * SPEED * this.speed;
        const at = calm ? Math.floor(moved) : moved;
        part = moved - at;
        before = time;
        if (at !== this.at) this.go(at);
        if (this.at >= this.last()) return this.pause();
        this.frame = requestAnimationFrame(next);
      };
      this.frame = requestAnimationFrame(next);
    },
    pause() {
      this.playing = false;
      cancelAnimationFrame(this.frame);
      this.rest();
    },
    // Milliseconds between frames while the scrubber runs over all places, for whoever measures.
    frames(count) {
      return new Promise((resolve) => {
        const times = [];
        let i = 0, before = 0;
        const next = (time) => {
          if (i) times.push(time - before);
          before = time;
          if (i++ === count) return resolve(times);
          this.go(((i * 7919) % 1000) / 1000 * this.last());
          requestAnimationFrame(next);
        };
        requestAnimationFrame(next);
      });
    },
  },
};
