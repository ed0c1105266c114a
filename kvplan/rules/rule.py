"""What a rule is: a code, words for people, two launches that show it, and a function from Plan to findings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from kvplan.engine.failures import Failure
from kvplan.engine.values import Plan
from kvplan.releases import Release, Span
from kvplan.rules.values import Finding, Severity


class Advice(Enum):
    """What a rule's own words on how to mend a finding are worth: a change of options is planned, never advised."""

    NONE = "none"
    """Nothing: what mends it is a change of the launch, and where none works there is none."""
    WHERE_NOTHING_WORKS = "else"
    """They speak of something else than the launch's options (a GPU, a checkpoint): told where no change works."""
    ALONE = "alone"
    """They are what mends it, and no change of options is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A launch that a rule is shown (and tested) with: a literal vLLM command and what it runs on."""

    command: str
    """The literal vLLM command line: `[NAME=VALUE] vllm serve MODEL …`, the model from the catalog."""
    version: str
    """The vLLM release."""
    gpu: str | None = "h200"
    """None leaves the GPU to kvplan's default."""
    available: str | None = "60GiB"
    """Memory for the cache per GPU, None when the operator does not know it."""
    weights: str | None = None
    """Size of the model's weights; None leaves it to the model's files."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command line as the shell would divide it."""
        return tuple(shlex.split(self.command))

    @property
    def options(self) -> tuple[str, ...]:
        """kvplan's own options for this launch."""
        found = ["--vllm-version", self.version]
        if self.gpu is not None:
            found += ["--gpu", self.gpu]
        if self.available is not None:
            found += ["--available-kv-memory", self.available]
        if self.weights is not None:
            found += ["--weights", self.weights]
        return tuple(found)

    @property
    def text(self) -> str:
        """The kvplan command line that checks this launch."""
        return f"kvplan check {shlex.join(self.options)} -- {self.command}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A file that a rule is shown (and tested) with: for what is seen only where launches stand in files."""

    file: str
    """Its name, which tells its kind."""
    content: str
    """Its text, ending with a line break."""
    options: tuple[str, ...] = ("--gpu", "h200", "--available-kv-memory", "60GiB")
    """kvplan's own options for the scan."""
    beside: tuple[tuple[str, str], ...] = ()
    """Other files of the directory: names and texts."""
    isolated: bool = True
    """Whether a settings file is left out."""

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """All files, by name and text."""
        return (*self.beside, (self.file, self.content))

    @property
    def arguments(self) -> tuple[str, ...]:
        """What `kvplan scan` is called with for a test."""
        return (*self.options, *(("--isolated",) if self.isolated else ()), "--offline", self.file)

    @property
    def text(self) -> str:
        """Shell commands that write the files and scan the one."""
        lines: list[str] = []
        for name, content in self.files:
            folder = name.rpartition("/")[0]
            lines += [f"mkdir -p {folder}"] if folder else []
            lines.append(f"cat > {name} <<'EOF'\n{content}EOF")
        return "\n".join([*lines, shlex.join(("kvplan", "scan", *self.options, self.file))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Span):
    """One rule. Codes never change meaning; names are kebab-case.

    `severity` is the worst that a finding of this rule can have. Its span holds the known releases in which it can
    fire. `claims` lists the start-up failures that this rule puts into words: for each of a plan, `check` gives at
    least one error finding.
    """

    code: str
    name: str
    severity: Severity
    summary: str
    """One line."""
    explanation: str
    """What happens, why, in which releases, and how to mend it; paragraphs divided by blank lines."""
    check: Callable[[Plan], Iterable[Finding]]
    bad: Example | Manifest
    """A launch that fires it."""
    good: Example | Manifest
    """A launch close by that does not fire it."""
    references: tuple[str, ...] = ()
    """PRs and issues as `vllm#12345`."""
    claims: tuple[type[Failure], ...] = ()
    advice: Advice = Advice.NONE
    """What its own words on how to mend it are worth beside changes that were planned."""
    pair: Callable[[Plan, Plan], Iterable[Finding]] | None = None
    """For launches that hand caches to each other: from the plans of the one that fills the cache (prefill) and
    the one that reads it (decode) to findings on the latter. Such a rule finds nothing in a launch alone."""

    def applies(self, release: Release) -> bool:
        """Whether the rule can fire in `release`."""
        return release.within(self)
