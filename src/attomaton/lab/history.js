// Each view has its place in the browser's history, so that Back goes to the one before; what changes on and on (a
// slider) or by itself (a page while it loads) stays in one place.
window.put_address = (place, keys, loading) => {
  const now = performance.now(), last = window.last_put ?? {keys: '', at: -1e9};
  const slides = keys && last.keys === keys && now - last.at < 800;
  const still = loading || !navigator.userActivation?.hasBeenActive || slides;
  if (new URL(place, document.baseURI).href !== location.href)
    history[still ? 'replaceState' : 'pushState'](history.state, '', place);
  window.last_put = {keys, at: now};
  window.view_shown = location.pathname + location.search;
};
window.view_shown = location.pathname + location.search;
window.addEventListener('popstate', () => {
  if (location.pathname + location.search !== window.view_shown) location.reload();
});
