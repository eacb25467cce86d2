"""Default configurations of every causal language model of the installed transformers: where our count differs.

    python scripts/transformers_misses.py            # prints the misses
    python scripts/transformers_misses.py --write    # writes tests/data/transformers_misses.json

Needs the extra ``hf``. A miss: more than 0.3% off, or refused although transformers builds it. Encoders are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from autodeploy.models.check import TOLERANCE_FRAC
from autodeploy.models.hf_families import ENCODERS
from autodeploy.models.hf_meta import build
from autodeploy.models.huggingface import parse_config
from cost_models.errors import ConfigError

FILE = Path(__file__).parents[1] / "tests" / "data" / "transformers_misses.json"


def misses() -> dict[str, str]:
    """Model type -> what is wrong: our error against the modules, or why we refuse the file."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    found: dict[str, str] = {}
    for model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        if model_type.replace("-", "_") in ENCODERS:
            continue
        try:
            document = json.loads(CONFIG_MAPPING[model_type]().to_json_string(use_diff=False))
            theirs = build(document).total
        except Exception:  # transformers itself cannot build its default
            continue
        try:
            ours = parse_config(document, model_type).parameters()
        except ConfigError as error:
            found[model_type] = f"refused: {error.field}"
            continue
        if abs(ours / theirs - 1.0) > TOLERANCE_FRAC:
            found[model_type] = f"{ours / theirs - 1.0:+.2%}"
    return found


def main() -> None:
    import transformers

    document = {"transformers": transformers.__version__, "misses": dict(sorted(misses().items()))}
    text = json.dumps(document, indent=1) + "\n"
    if "--write" in sys.argv[1:]:
        FILE.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
