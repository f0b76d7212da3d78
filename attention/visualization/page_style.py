"""The looks of the interactive page: any width from a phone's, light, dark and paper."""

from attention.visualization.colours import DARK, LIGHT, Colours


def style() -> str:
    """Returns the style sheet."""
    dark = f"@media screen and (prefers-color-scheme: dark) {{ {_variables(DARK, 'dark')} }}"
    return f"{_variables(LIGHT, 'light')}\n{dark}\n{RULES}"


def _variables(colours: Colours, scheme: str) -> str:
    named = "; ".join(f"--{name}: {value}" for name, value in colours._asdict().items())
    return f":root {{ {named}; color-scheme: {scheme} }}"


RULES = """
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--ground);
  color: var(--ink); font: 16px/1.45 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.3rem; margin: 0 0 .3rem } h2 { font-size: 1.05rem; margin: 1.4rem 0 .4rem }
p { margin: .3rem 0 } .quiet { opacity: .8; font-size: .9rem }
.controls { display: flex; flex-wrap: wrap; gap: .6rem 1rem; margin: .8rem 0 }
.controls label { display: flex; flex-direction: column; font-size: .85rem; max-width: 100% }
select { font: inherit; padding: .3rem; max-width: 100%; color: var(--ink);
  background: var(--ground); border: 1px solid var(--edge); border-radius: 4px }
.tokens { display: flex; flex-wrap: wrap; gap: 3px; margin: .3rem 0 }
.token { position: relative; font: inherit; color: var(--ink); background: none;
  border: 1px solid var(--edge); border-radius: 4px; padding: .15rem .4rem; min-width: 1.8rem;
  min-height: 1.8rem; text-align: center; max-width: 100% }
button { cursor: pointer }
.token[aria-checked=true], .head[aria-checked=true] { outline: 3px solid var(--ink);
  outline-offset: -2px }
:focus-visible { outline: 3px dashed var(--plus); outline-offset: 1px }
.share { display: block; font-size: .7rem; opacity: .85 }
.strong { color: var(--ground) } .strong .share { opacity: 1 }
.heads { display: flex; flex-wrap: wrap; gap: .5rem }
.head { font: inherit; font-size: .8rem; color: var(--ink); background: none; padding: .3rem;
  border: 1px solid var(--edge); border-radius: 4px; width: 8.2rem; display: flex;
  flex-direction: column; align-items: center }
@media (max-width: 30rem) { .head { width: calc((100% - 1rem) / 3) } }
.head svg { display: block; width: 100%; height: 5.6rem }
.wide { overflow-x: auto; max-width: 100% }
.map text { fill: var(--ink); font-family: system-ui, sans-serif; font-size: 12px }
.plus { fill: var(--plus) } .minus { fill: var(--minus) }
.frame { fill: none; stroke: var(--edge) } .chosen { fill: none; stroke: var(--ink);
  stroke-width: 2 }
.map .cell { cursor: pointer }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--edge); text-align: right }
th:first-child { text-align: left; white-space: nowrap } tr[aria-current=true] { font-weight: bold }
kbd { border: 1px solid var(--edge); border-radius: 3px; padding: 0 .3em; font-size: .85em }
dt { font-weight: bold } dd { margin: 0 0 .4rem 1rem }
@media print { .controls, .keys { display: none } .wide { overflow: visible }
  .map { max-width: 100%; height: auto } body { padding: 0; font-size: 11pt }
  h2 { break-after: avoid } .head, tr, .tokens { break-inside: avoid }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
"""
