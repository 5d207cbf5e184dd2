// Before anything is drawn: whether the answer that is built in is to this address, and whether another page shows a part
// of this one.

(() => {
  const root = document.documentElement;
  const asked = new URLSearchParams(location.search);
  if (location.search || location.hash) root.classList.add('asked');
  const part = asked.get('embed');
  if (!['matrix', 'cell', 'chart', 'layout'].includes(part)) return;
  root.dataset.embed = part;

  const wear = (theme) => {
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  wear(asked.get('theme'));

  document.addEventListener('DOMContentLoaded', () => {
    const link = document.createElement('a');
    Object.assign(link, { className: 'whole-page', target: '_blank', rel: 'noopener', textContent: 'KV Explorer ↗' });
    // the address follows what is chosen
    const follow = () => {
      const now = new URL(location.href);
      for (const name of ['embed', 'theme']) now.searchParams.delete(name);
      link.href = now;
    };
    follow();
    for (const sign of ['pointerdown', 'focus', 'click']) link.addEventListener(sign, follow);
    document.body.append(link);
    if (parent === window) return;
    addEventListener('message', ({ source, data }) => {
      if (source === parent && data?.type === 'kv-explorer:theme') wear(data.theme);
    });
    // the height is no secret, and all that is told
    const tell = () => {
      // not of a page that is still empty
      if (!document.querySelector('#answer h2')) return;
      const height = Math.ceil(document.body.getBoundingClientRect().height);
      parent.postMessage({ type: 'kv-explorer:height', height }, '*');
    };
    new ResizeObserver(tell).observe(document.body);
  });
})();
