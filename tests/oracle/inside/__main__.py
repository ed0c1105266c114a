"""`python -m tests.oracle.inside JOB`: answer the cases of a job; prints a line of JSON for each that is done."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.oracle import job
from tests.oracle.inside import batch

if __name__ == "__main__":
    batch.run(job.read(Path(sys.argv[1])))
