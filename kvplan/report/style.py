"""The style of the HTML page. Every colour comes with a pattern or a word."""

STYLE = """
:root{color-scheme:light dark;--text:#1b1f24;--soft:#59636e;--page:#fff;--card:#f6f8fa;--line:#d1d9e0;
--error:#b31d28;--warning:#8a4b00;--note:#0757a8;--ok:#116329;--link:#0757a8;
--wide:#3477b5;--eight:#d98200;--raw:#1d8a63;--four:#a4508b;--other:#737b85;--cache:#5b5fc7;--mark:#fff9}
@media(prefers-color-scheme:dark){:root{--text:#e6edf3;--soft:#9aa5b1;--page:#0d1117;--card:#161b22;--line:#3d444d;
--error:#ff8a80;--warning:#f0b45b;--note:#7cbcff;--ok:#6fdd8b;--link:#7cbcff;
--wide:#5a9bd8;--eight:#e69f00;--raw:#35b083;--four:#cc79a7;--other:#8b949e;--cache:#8f93f0;--mark:#0009}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:1100px;margin:0 auto;padding:1rem}
h1{font-size:1.3rem;line-height:1.35;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}
h3{font-size:1rem;margin:0;overflow-wrap:anywhere}p{margin:.4rem 0;overflow-wrap:anywhere}a{color:var(--link)}
blockquote{margin:.6rem 0;padding:.3rem .8rem;border-left:4px solid var(--error);background:var(--card);
overflow-wrap:anywhere}
.badge{display:inline-block;border:1px solid;border-radius:4px;padding:0 .4em;font-size:.85em;font-weight:600}
.badge.error,.badge.unusable{color:var(--error)}.badge.warning{color:var(--warning)}.badge.note{color:var(--note)}
.badge.ok{color:var(--ok)}
.card{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem;margin:.6rem 0}
dl{display:grid;grid-template-columns:fit-content(45%) 1fr;gap:.1rem .8rem;margin:.4rem 0 0}
dt{color:var(--soft);overflow-wrap:anywhere}dd{margin:0;overflow-wrap:anywhere}
details{border:1px solid var(--line);border-radius:6px;padding:.5rem .8rem;margin:.6rem 0}
summary{cursor:pointer;overflow-wrap:anywhere}
.table{overflow-x:auto;background:linear-gradient(90deg,var(--page) 40%,#0000) 0 0/3rem 100% no-repeat local,
linear-gradient(-90deg,var(--page) 40%,#0000) 100% 0/3rem 100% no-repeat local,
linear-gradient(90deg,var(--line),#0000) 0 0/.9rem 100% no-repeat scroll,
linear-gradient(-90deg,var(--line),#0000) 100% 0/.9rem 100% no-repeat scroll,var(--page)}
table{border-collapse:collapse;font-size:.9rem}
th,td{text-align:left;padding:.2rem .7rem .2rem 0;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600}.number{text-align:right;font-variant-numeric:tabular-nums}
.strip{display:flex;align-items:flex-end;height:110px;border-bottom:1px solid var(--text);overflow-x:auto}
.strip i{flex:1 1 0;min-width:2px;margin-right:1px}
.axis{display:flex;justify-content:space-between;gap:1rem;color:var(--soft);font-size:.85rem;margin:.2rem 0}
.bar{display:flex;height:26px;border:1px solid var(--line);margin-top:.6rem}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;padding:0;margin:.3rem 0;font-size:.9rem}
.legend li{display:flex;align-items:baseline}
.legend i{flex:none;width:1.1em;height:.9em;margin-right:.4em;border:1px solid var(--soft);transform:translateY(.1em)}
.wide{background:var(--wide)}.cache{background:var(--cache)}
.eight{background:repeating-linear-gradient(45deg,var(--eight) 0 4px,var(--mark) 4px 6px),var(--eight)}
.need{background:repeating-linear-gradient(45deg,var(--cache) 0 6px,var(--mark) 6px 8px),var(--cache)}
.raw{background:repeating-linear-gradient(0deg,var(--raw) 0 3px,var(--mark) 3px 5px),var(--raw)}
.four{background:repeating-linear-gradient(-45deg,var(--four) 0 3px,var(--mark) 3px 5px),var(--four)}
.other,.used{background:repeating-linear-gradient(90deg,var(--other) 0 5px,var(--mark) 5px 7px),var(--other)}
.free{background:var(--page)}
.chart dd{display:flex;align-items:center;gap:.6rem}.chart i{flex:none;height:.9em}
.wrap{display:inline-block;width:max-content;white-space:normal;overflow-wrap:anywhere;max-width:min(55vw,27rem)}
.option{display:inline-block;max-width:100%;overflow-wrap:anywhere}
@media(max-width:600px){dl.long{grid-template-columns:1fr}dl.long dd{margin-bottom:.4rem}}
.cause{border-left:3px solid var(--line);padding-left:.6rem;font-size:.95em}code{overflow-wrap:anywhere}
@media print{details{break-inside:avoid}}
"""
