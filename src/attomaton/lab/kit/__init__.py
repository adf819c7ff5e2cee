"""What screens are made of.

- `page`: `Page` and `ModelPage`, one tab on a screen: its title and styles, its model, errors of ours as a sentence.
- `parts`: `title`, `card`, `figures` (labelled numbers), `note`, `chip`, `place` (filled later), `button`, `dense`.
- `fields`: choices that are in the address.
- `charts`: `Picture` (axes, series, marks; no options of ECharts elsewhere) and `Chart`, its card with table and files.
- `text`: `Text`, words as running text with shades, strikes and marks, to be clicked; `text_key` says what they mean.
- `table`: rows as a table that can be sorted, chosen from, and whose cells lead somewhere.
- `work`: `Work`, of which a lab does one at a time; `watch_in` and `on_change` for a page that looks at it.
- `cache`: `Cache`, a bounded one, by what things were computed from; `Shared`, one thing for all pages of a lab.
- `find`, `contexts`: a field for one token among many; contexts as they are typed.

`style.css` has the looks of every page, `keyboard.js` what the keyboard and screen readers need.
"""
