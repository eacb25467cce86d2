"""Fits the error model of decisions and the memory probit, and writes them with their data and error.

    python scripts/fit_decisions.py            writes autodeploy/decide/parameters.json
    python scripts/fit_decisions.py --check    says whether the committed file is what this would write (exit 1: it is not)

To be run again whenever a prediction moves. Data: every complete run that is not suspect, but for the sources put aside
(autodeploy/accuracy/held_out.py). Priors: autodeploy/decide/priors.py.
"""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path

from autodeploy.accuracy import read_runs
from autodeploy.decide.fitted import fitted_document
from autodeploy.decide.problems import judged_runs

FILE = Path(str(resources.files("autodeploy.decide") / "parameters.json"))


def main() -> int:
    text = json.dumps(fitted_document(judged_runs(read_runs())), indent=1, sort_keys=True) + "\n"
    if "--check" in sys.argv[1:]:
        same = FILE.is_file() and FILE.read_text(encoding="utf-8") == text
        print("parameters.json is up to date" if same else "parameters.json is not what the runs give today")
        return 0 if same else 1
    FILE.write_text(text, encoding="utf-8")
    print(f"wrote {FILE.name}: {json.loads(text)['data']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
