/** The style of a plan's page. The page's policy names it by its hash, so browsers apply no other. */
export const planStyle = `
:root {
  --ground: #fff; --ink: #1c2128; --soft: #57606a; --line: #dfe3e8; --tint: #f5f7f9;
  --before: #8a94a0; --after: #4c63d2; --up: #0f7b5f; --down: #b9530f; --same: #d5dae0;
  color-scheme: light;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #14171c; --ink: #e6e9ed; --soft: #a2abb6; --line: #2d333b; --tint: #1c2027;
    --before: #9aa5b1; --after: #7d92f5; --up: #45bf97; --down: #ef9556; --same: #353c46;
    color-scheme: dark;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
main, footer { max-width: 66rem; margin: 0 auto; padding: 0 1.5rem; }
main { padding-top: 3.5rem; }
.overline { margin: 0 0 .5rem; color: var(--soft); font-size: .875rem; }
h1 { margin: 0 0 .75rem; font-size: clamp(1.6rem, 4vw, 2.35rem); line-height: 1.15; letter-spacing: -.02em; font-weight: 650; text-wrap: balance; }
h2 { margin: 0 0 .35rem; font-size: 1.25rem; letter-spacing: -.01em; font-weight: 650; }
p { margin: 0 0 .75rem; max-width: 46rem; }
.lede { font-size: 1.0625rem; color: var(--soft); }
.lede strong { color: var(--ink); font-weight: 600; }
.note { color: var(--soft); font-size: .9rem; }
.caution { border-left: 3px solid var(--down); padding: .1rem 0 .1rem .85rem; }
section { margin-top: 3.5rem; }
a { color: inherit; text-decoration-color: var(--before); text-underline-offset: .18em; text-decoration-thickness: 1px; }
a:hover { text-decoration-color: currentColor; }
a:focus-visible, [tabindex]:focus-visible, summary:focus-visible { outline: 2px solid var(--after); outline-offset: 3px; border-radius: 2px; }
svg { display: block; }
svg text { font-family: inherit; }

.shares { width: 100%; height: .6rem; margin: 1.75rem 0 .6rem; border-radius: 4px; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: 0; padding: 0; list-style: none; font-size: .9rem; color: var(--soft); }
.legend b { color: var(--ink); font-weight: 600; }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .45rem; border-radius: 3px; vertical-align: -.08rem; }
.key.up { background: var(--up); } .key.down { background: var(--down); } .key.same { background: var(--same); }
.key.after { background: var(--after); }
.key.before { height: 0; border-top: 2.5px solid var(--before); border-radius: 0; vertical-align: .22rem; width: 1.1rem; }

.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1.5rem 2rem; margin: 2.5rem 0 0; padding: 1.5rem 0 0; border-top: 1px solid var(--line); }
.figures div { display: flex; flex-direction: column; }
.figures dt { color: var(--soft); font-size: .875rem; text-transform: capitalize; }
.figures dd { margin: 0; }
.figures .value { font-size: 1.75rem; line-height: 1.25; font-weight: 600; letter-spacing: -.02em; }
.figures .from { color: var(--soft); font-size: .875rem; }

.scroll { overflow-x: auto; }
.scroll table { min-width: 46rem; }
.distribution { width: 100%; min-width: 40rem; height: auto; margin-top: .5rem; }
.distribution .after { fill: var(--after); }
.distribution .outline { fill: none; stroke: var(--before); stroke-width: 2.25; stroke-linejoin: round; }
.distribution .median { stroke: var(--before); stroke-width: 1.25; stroke-dasharray: 3 4; }
.distribution .median.after { stroke: var(--after); fill: none; }
.distribution .target { fill: transparent; }
.distribution .target:hover { fill: var(--ink); fill-opacity: .06; }
.distribution .label { font-size: 12.5px; fill: var(--soft); }
.distribution .label.after { fill: var(--after); font-weight: 600; }
.tick { font-size: 12.5px; fill: var(--soft); }
.grid { stroke: var(--line); stroke-width: 1; }

details { margin-top: .75rem; font-size: .9rem; }
summary { cursor: pointer; color: var(--soft); width: fit-content; }
details table { margin-top: .5rem; width: auto; }

table { width: 100%; border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .45rem .75rem; text-align: left; vertical-align: middle; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { padding-left: 0; } th:last-child, td:last-child { padding-right: 0; }
thead th { font-size: .8125rem; font-weight: 500; color: var(--soft); vertical-align: bottom; }
tbody th { font-weight: 600; }
.scroll tbody th { min-width: 14rem; }
.n { text-align: right; white-space: nowrap; }
code { font: .8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
.entry { padding-left: 1.25rem; font-size: .875rem; font-weight: 400; }
.entry.removed code { color: var(--soft); text-decoration: line-through; }
.badge { display: inline-block; margin-left: .5rem; padding: 0 .5rem; border: 1px solid var(--line); border-radius: 1rem; font-size: .75rem; line-height: 1.35rem; font-weight: 500; color: var(--soft); white-space: nowrap; }
.badge.added { color: var(--up); border-color: currentColor; } .badge.removed, .badge.never { color: var(--down); border-color: currentColor; } .badge.changed { color: var(--after); border-color: currentColor; }
.pair { width: 10rem; height: .875rem; }
.pair .track { fill: var(--tint); } .pair .before { fill: var(--before); } .pair .after { fill: var(--after); }
.difference { width: 7.5rem; height: .875rem; margin-left: auto; }
.difference .axis { stroke: var(--before); stroke-width: 1; }
.ranks { width: 100%; min-width: 40rem; height: auto; margin: .75rem 0 2rem; }
.ranks path { fill: none; stroke-width: 2; }
.ranks path.up { stroke: var(--up); } .ranks path.down { stroke: var(--down); } .ranks path.same { stroke: var(--same); }
.ranks circle.up { fill: var(--up); } .ranks circle.down { fill: var(--down); } .ranks circle.same { fill: var(--before); }
.ranks g:hover path { stroke-width: 3.5; }
.ranks .member { font-size: 14px; fill: var(--ink); unicode-bidi: isolate; }
.ranks .tick { font-size: 13px; } .ranks .heading { font-size: 13px; fill: var(--soft); }
rect.up { fill: var(--up); } rect.down { fill: var(--down); } rect.same { fill: var(--same); }
.up-text { color: var(--up); } .down-text { color: var(--down); } .same-text { color: var(--soft); }
.login { color: var(--soft); font-weight: 400; font-size: .875rem; margin-left: .35rem; white-space: nowrap; }

footer { margin-top: 4rem; padding-top: 1.25rem; padding-bottom: 3rem; color: var(--soft); font-size: .875rem; }
footer p { border-top: 1px solid var(--line); padding-top: 1.25rem; max-width: none; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

@media print {
  @page { margin: 15mm; }
  html { font-size: 12px; }
  main, footer { max-width: none; padding-left: 0; padding-right: 0; }
  main { padding-top: 0; }
  section { margin-top: 2rem; }
  h2, .legend, h2 + .note { break-after: avoid; }
  tr, li, svg, .figures div { break-inside: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  .scroll table, .scroll tbody th { min-width: 0; }
  .distribution { min-width: 0; }
  details { display: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
@media (max-width: 40rem) {
  main { padding-top: 2rem; }
  table { font-size: .875rem; }
  main, footer { padding-left: 1rem; padding-right: 1rem; }
  .bar, .wide { display: none; }
  .scroll table, .scroll tbody th { min-width: 0; }
  .scroll th, .scroll td { padding-left: .2rem; padding-right: .2rem; overflow-wrap: break-word; }
  .scroll code { overflow-wrap: anywhere; }
  .scroll thead th { white-space: normal; font-size: .6875rem; }
  .scroll .login { display: block; margin-left: 0; }
}
`;
