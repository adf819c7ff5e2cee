"""The lab's looks: the colours of our pages, light and dark, at any width."""

STYLE = """
body { --ink: #1b1f24; --soft: #57606a; --paper: #ffffff; --line: #d0d7de; --fill: #f3f5f7; --link: #0072b2;
  --hot: #d55e00; --good: #00795a; background: var(--fill); color: var(--ink); overflow-wrap: anywhere; }
body.body--dark { --ink: #e6edf3; --soft: #9ba7b4; --paper: #171c22; --line: #39424d; --fill: #0f1317;
  --link: #56b4e9; --hot: #ff8a4c; --good: #2fd0a0; background: var(--fill) !important; }
body.body--dark { --q-primary: #56b4e9 !important; }
/* Quasar's own important colours stand in a layer, and of those the earlier layer wins. */
@layer theme { .body--dark .bg-primary { color: #0b0e11 !important; }
  .no-outline:focus-visible { outline: 2px solid var(--link) !important; outline-offset: 2px !important; } }
.nicegui-content { padding: 0; display: block; }
.q-header.top { background: var(--paper); color: var(--ink); border-bottom: 1px solid var(--line); display: flex;
  align-items: center; gap: .4rem; padding: .35rem .7rem; flex-wrap: nowrap; }
.top .q-btn { color: var(--ink); }
.brand { font-weight: 700; color: var(--link) !important; text-decoration: none; font-size: 1.05rem;
  margin-right: .4rem; }
.picker { min-width: 6rem; max-width: 22rem; flex: 0 1 22rem; }
.q-drawer { background: var(--paper) !important; color: var(--ink); }
.frame { display: grid; grid-template-columns: 11.5rem minmax(0, 1fr); min-height: calc(100vh - 60px); }
.nav { padding: .6rem .4rem; background: var(--paper); border-right: 1px solid var(--line); position: sticky; top: 0;
  align-self: start; height: 100%; }
@media (max-width: 900px) { .frame { grid-template-columns: minmax(0, 1fr); grid-template-rows: auto 1fr; }
  .nav { display: flex; overflow-x: auto; border-right: 0; border-bottom: 1px solid var(--line); padding: .25rem;
    height: auto; }
  .nav-key { display: none; } .nav-link { white-space: nowrap; gap: .35rem !important; } }
.nav-link { display: flex; align-items: center; gap: .6rem; padding: .45rem .6rem; border-radius: 8px;
  color: var(--ink); text-decoration: none; }
.nav-link:hover { background: var(--fill); }
.nav-link.here { background: var(--fill); color: var(--link); font-weight: 600; }
.nav-link .q-icon { font-size: 1.2rem; }
.nav-key { margin-left: auto; font-size: .7rem; color: var(--soft); }
.help { padding: 1rem; line-height: 1.55; }
.help h3 { font-size: 1.15rem; font-weight: 600; margin: 0 0 .5rem; }
.page { display: flex; flex-direction: column; gap: 1rem; padding: 1rem clamp(.6rem, 2vw, 1.6rem) 3rem;
  width: 100%; max-width: 100rem; }
.page h1, .title { font-size: 1.5rem; font-weight: 600; line-height: 1.25; margin: 0; }
.lead { color: var(--soft); max-width: 48rem; line-height: 1.55; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: .7rem .9rem;
  min-width: 0; width: 100%; display: flex; flex-direction: column; gap: .5rem; }
.card-head { align-items: center; gap: .2rem; flex-wrap: nowrap; margin-bottom: .2rem; }
.card-title { font-weight: 600; font-size: 1rem; line-height: 1.3; }
.place { width: 100%; } .place:empty { display: none; }
.note { color: var(--soft); font-size: .85rem; line-height: 1.45; }
.twin { overflow-x: auto; margin-top: .5rem; }
.grid2 { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  width: 100%; }
.grid3 { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr));
  width: 100%; }
.side { display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr) minmax(16rem, 22rem); width: 100%; }
@media (max-width: 1000px) { .side { grid-template-columns: minmax(0, 1fr); } }
.abreast { display: flex; flex-wrap: wrap; gap: .6rem; align-items: center; }
.problem { display: flex; gap: .6rem; padding: .7rem .9rem; border: 1px solid var(--hot); border-left-width: 5px;
  border-radius: 8px; background: var(--paper); color: var(--ink); font-size: .92rem; line-height: 1.5; }
.problem .q-icon { color: var(--hot); font-size: 1.3rem; }
.job { display: grid; grid-template-columns: 1fr auto; gap: .3rem .8rem; align-items: center; padding: .7rem .9rem;
  border: 1px solid var(--line); border-radius: 8px; background: var(--paper); }
.job-note { grid-column: 1 / -1; font-size: .9rem; color: var(--soft); }
.items { list-style: none; margin: .3rem 0 0; padding: 0; max-height: 22rem; overflow-y: auto; }
.items li { display: flex; gap: .6rem; justify-content: space-between; padding: .3rem 0;
  border-top: 1px solid var(--line); }
.upload { width: 100%; max-width: 100%; box-shadow: none; background: transparent; }
.upload .q-uploader__header { background: var(--fill); color: var(--ink); border: 2px dashed var(--soft);
  border-radius: 8px; padding: .8rem .4rem; }
.upload-head { display: flex; align-items: center; gap: .6rem; padding: 0 .6rem; font-size: .95rem; font-weight: 600; }
.upload-field { flex: 1 1 auto; min-width: 0; } .upload-head .q-btn { z-index: 1; }
.upload .q-uploader__list { display: none; } .upload .q-uploader__subtitle { display: none; }
.upload.q-uploader--bordered { border: 0; }
.chip { overflow-wrap: break-word; }
.chip { display: inline-flex; gap: .3rem; padding: .12rem .55rem; border: 1px solid var(--line); border-radius: 99px;
  background: var(--fill); font-size: .88rem; color: var(--ink); text-decoration: none; }
.q-btn-toggle { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
.q-btn-toggle .q-btn { padding: 2px 12px; }
a.chip:hover, .chip.can:hover { border-color: var(--link); color: var(--link); cursor: pointer; }
.figures { display: flex; flex-wrap: wrap; gap: .6rem 1.6rem; }
.figure-value { font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.2; }
.figure-name { font-size: .8rem; color: var(--soft); }
.defined { cursor: help; text-decoration: underline dotted var(--soft); text-underline-offset: 3px;
  width: fit-content; }
.q-tooltip { z-index: 5900; /* below menus */ background: var(--ink); color: var(--paper); font-size: .78rem; }
.q-tooltip.term { background: var(--paper); color: var(--ink); border: 1px solid var(--line); font-size: .85rem;
  line-height: 1.5; padding: .5rem .7rem; box-shadow: 0 6px 20px rgb(0 0 0 / .18); }
.term-formula { font-size: 1rem; margin: .35rem 0; } .term-source { color: var(--soft); font-size: .78rem; }
.numbers { background: transparent; color: var(--ink); max-width: 100%; }
.numbers th { color: var(--soft); font-weight: 600; }
.numbers td, .numbers th { font-variant-numeric: tabular-nums; }
.numbers.choosable tbody tr { cursor: pointer; }
.numbers.choosable tbody tr:hover, .numbers.choosable tbody tr:focus-visible { background: var(--fill); }
.linked-part { white-space: nowrap; }
.linked-part + .linked-part { margin-left: .4rem; }
.linked-part a { text-decoration: underline 1px var(--soft); text-underline-offset: 3px; }
.linked-part a:hover { text-decoration-color: var(--link); }
.linked-part .linked-place { text-decoration: none; }
.linked-place { margin-left: .25rem; font-size: .8rem; color: var(--soft); }
.linked-place:hover, .linked-place:focus-visible { color: var(--link); }
.linked td { white-space: normal; } .linked td.text-left { min-width: 6rem; }
.linked td.text-right { white-space: nowrap; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.mono, code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .88rem; }
.nicegui-markdown { line-height: 1.55; }
.q-notification.copied { max-width: 90vw; }
@media (max-width: 600px) { .page { padding: .7rem .6rem 3rem; gap: .7rem; } .brand { display: none; } }
"""
