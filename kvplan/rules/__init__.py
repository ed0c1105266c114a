"""The rules room: what is wrong with a plan, and how to mend it.

`run(plan)` gives the findings, `rules()` and `get(code)` the rules themselves.
"""

from kvplan.rules.rule import Example, Manifest, Rule
from kvplan.rules.running import chosen, get, regraded, rules, run, run_pair
from kvplan.rules.values import Finding, Severity

__all__ = [
    "Example",
    "Finding",
    "Manifest",
    "Rule",
    "Severity",
    "chosen",
    "get",
    "regraded",
    "rules",
    "run",
    "run_pair",
]
