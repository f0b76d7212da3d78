"""The style and the script of the report's page."""

STYLE = """
:root { --ground: #fff; --ink: #1f2328; --dim: #59636e; --line: #d0d7de; --soft: #f6f8fa }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0d1117; --ink: #e6edf3; --dim: #9198a1; --line: #3d444d; --soft: #151b23 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word }
main { max-width: 75rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem }
.answer { font-size: 1.1rem; max-width: 45rem; padding: .75rem 1rem; margin: .75rem 0;
  background: var(--soft); border-left: 4px solid #0072b2 }
ul { padding-left: 1.25rem } li { margin: .35rem 0; max-width: 50rem }
.scroll { overflow-x: auto; border: 1px solid var(--line); width: fit-content; max-width: 100% }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: .4rem .6rem; text-align: left; white-space: nowrap;
  border-bottom: 1px solid var(--line) }
thead th { background: var(--soft) }
tbody tr:last-child > * { border-bottom: 0 }
tbody th { position: sticky; left: 0; background: var(--ground); font-weight: 600;
  max-width: 45vw; white-space: normal }
.number { text-align: right }
.baseline > * { background: var(--soft) }
th button { all: unset; cursor: pointer } th button:focus-visible { outline: 2px solid #0072b2 }
th[aria-sort=ascending] button::after { content: " \\2191" }
th[aria-sort=descending] button::after { content: " \\2193" }
.plots { display: grid; gap: 1rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)) }
figure { margin: 0 } figure svg { width: 100%; height: auto; display: block; overflow: visible }
figcaption, dd, summary { color: var(--dim); font-size: .875rem } summary { cursor: pointer;
  padding: .5rem 0 } dt { font-weight: 600; font-size: .875rem } dd { margin: 0 0 .5rem }
pre { background: var(--soft); padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: .875rem }
@page { size: A4 landscape; margin: 12mm }
@media print {
  :root { --ground: #fff; --ink: #000; --dim: #333; --line: #999; --soft: #fff }
  body { font-size: 10pt } main { max-width: none; padding: 0 }
  .scroll { overflow: visible; border: 0 } table { font-size: 6.5pt; width: 100% }
  th, td { white-space: normal; padding: 2pt 3pt } tbody th { position: static }
  figure, tr, .answer { break-inside: avoid } h2 { break-after: avoid }
  .plots { grid-template-columns: 1fr 1fr } details > :not(summary) { display: block } }
"""

# Without it the page is the same, but its tables do not sort.
SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.ariaSort !== "descending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.ariaSort = down ? "descending" : "ascending";
      const sign = down ? -1 : 1;
      const value = row => row.cells[column].dataset.value;
      [...body.rows].sort((a, b) => {
        const x = value(a), y = value(b);
        if (x === undefined && y === undefined)
          return sign * a.cells[column].textContent.localeCompare(b.cells[column].textContent);
        if (x === undefined || y === undefined) return x === undefined ? 1 : -1;
        return sign * (x - y);
      }).forEach(row => body.append(row));
    });
  });
}
"""
