// <kv-explorer model="deepseek-ai/DeepSeek-V4-Flash" gpu="b200" part="matrix"></kv-explorer>: an answer of KV Explorer within
// another page. Attributes are the parameters of the explorer's address (flags as on the command line or by their names);
// what is left out is as on the explorer's first view: `tensor-parallel-size` is 8 there, not 1 as for vLLM and `kvx`.
// `part` is matrix, cell, chart or layout; `theme` is light, dark, or what the page around it has.
//
// It is a frame of the explorer that stands where this script does: nothing of the page around it is read but the colour
// behind it, and nothing is sent.

(() => {
  const script = document.currentScript ?? document.querySelector('script[src*="embed.js"]');
  const page = new URL('./', script.src);
  const LEAST_HEIGHT = 40;
  const MOST_HEIGHT = 20000;
  const OWN = new Set(['part', 'theme', 'id', 'class', 'style', 'slot', 'title', 'hidden', 'lang', 'dir', 'tabindex', 'role']);

  const PARTS = ['matrix', 'cell', 'chart', 'layout'];

  // Whether an element is on dark ground: whether its text is light. What a colour is, whatever its notation, a canvas knows.
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const drawn = canvas.getContext('2d', { willReadFrequently: true });
  function isOnDark(element) {
    drawn.fillStyle = getComputedStyle(element).color;
    drawn.fillRect(0, 0, 1, 1);
    const [red, green, blue] = drawn.getImageData(0, 0, 1, 1).data;
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 128;
  }

  class KvExplorer extends HTMLElement {
    #frame = document.createElement('iframe');
    #watch = new MutationObserver(() => this.#ask());
    #around = new MutationObserver(() => this.#wear());
    #scheme = matchMedia('(prefers-color-scheme: dark)');
    #turned = () => this.#wear();
    #heard = (event) => {
      if (event.origin !== page.origin || event.source !== this.#frame.contentWindow) return;
      const { type, height } = event.data ?? {};
      if (type !== 'kv-explorer:height' || !Number.isFinite(height)) return;
      this.#frame.style.height = `${Math.min(Math.max(height, LEAST_HEIGHT), MOST_HEIGHT)}px`;
      this.#wear();
    };

    connectedCallback() {
      const frame = this.#frame;
      frame.loading = 'lazy';
      frame.referrerPolicy = 'no-referrer';
      frame.allow = 'clipboard-write';
      frame.style.cssText = 'display:block;width:100%;height:420px;border:0';
      if (!this.shadowRoot) this.attachShadow({ mode: 'open' }).append(frame);
      if (!this.style.display) this.style.display = 'block';
      addEventListener('message', this.#heard);
      this.#watch.observe(this, { attributes: true });
      const looks = { attributes: true, attributeFilter: ['class', 'style', 'data-theme', 'data-bs-theme', 'data-color-mode'] };
      this.#around.observe(document.documentElement, looks);
      this.#around.observe(document.body, looks);
      this.#scheme.addEventListener('change', this.#turned);
      this.#ask();
    }

    disconnectedCallback() {
      removeEventListener('message', this.#heard);
      this.#scheme.removeEventListener('change', this.#turned);
      this.#watch.disconnect();
      this.#around.disconnect();
    }

    get #theme() {
      const asked = this.getAttribute('theme');
      if (asked === 'light' || asked === 'dark') return asked;
      return isOnDark(this) ? 'dark' : 'light';
    }

    #ask() {
      const url = new URL(page);
      const part = this.getAttribute('part');
      url.searchParams.set('embed', PARTS.includes(part) ? part : 'matrix');
      url.searchParams.set('theme', this.#theme);
      for (const { name, value } of this.attributes) {
        if (OWN.has(name) || name.startsWith('data-') || name.startsWith('aria-') || name.startsWith('on')) continue;
        url.searchParams.set(name.replaceAll('-', '_'), value);
      }
      this.#frame.title = this.title || 'KV Explorer';
      // the theme alone asks nothing anew
      const question = (address) => address.replace(/([?&])theme=\w+&?/, '$1');
      if (question(this.#frame.src) === question(url.href)) this.#wear();
      else this.#frame.src = url;
    }

    #wear() {
      // of the same scheme as the page in it, a frame is transparent
      this.#frame.style.colorScheme = this.#theme;
      this.#frame.contentWindow?.postMessage({ type: 'kv-explorer:theme', theme: this.#theme }, page.origin);
    }
  }

  customElements.get('kv-explorer') ?? customElements.define('kv-explorer', KvExplorer);
})();
