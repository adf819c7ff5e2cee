// What Quasar and NiceGUI leave undone for those who use the keyboard or a screen reader: a script for every page.
//
// The options of a choice lie in an element that may not stand between a list and its options, unless it says that it is
// a group of them. And cells that are made by a template are made anew whenever the table changes, as when it is sorted:
// the focus stays where it was, by its place in the table.
document.addEventListener('DOMContentLoaded', () => {
  const grouped = (menu) => menu.querySelectorAll('[role=listbox] > .q-virtual-scroll__content')
    .forEach((e) => e.setAttribute('role', 'group'));
  new MutationObserver((changes) => {
    for (const menu of changes.flatMap((c) => [...c.addedNodes]).filter((e) => e.id?.startsWith('q-portal--menu')))
      new MutationObserver(() => grouped(menu)).observe(menu, {childList: true, subtree: true});
  }).observe(document.body, {childList: true});

  let kept = null;
  const stops = (table) => [...table.querySelectorAll('a[href], button, input, [tabindex="0"]')];
  document.addEventListener('focusin', (e) => {
    const table = e.target.closest?.('.q-table__container');
    kept = table && {table, at: stops(table).indexOf(e.target)};
  });
  document.addEventListener('pointerdown', () => { kept = null; }, {capture: true});
  new MutationObserver(() => {
    if (kept?.table.isConnected && document.activeElement === document.body)
      stops(kept.table)[kept.at]?.focus({preventScroll: true});
  }).observe(document.body, {childList: true, subtree: true});
});
