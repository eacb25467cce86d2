"""Writes docs/decisions_accuracy.md and docs/reliability.svg: how well the decisions hold on measured problems.

python scripts/decisions_page.py     a minute or two; what ``autodeploy accuracy --decisions`` prints, with the picture
"""

from __future__ import annotations

from pathlib import Path

from autodeploy.accuracy import read_runs
from autodeploy.decide.decisions import decisions_document
from autodeploy.decide.gate import decision_violations
from autodeploy.decide.problems import judged_runs
from autodeploy.decide.render import decision_lines, reliability_svg

DOCS = Path(__file__).resolve().parent.parent / "docs"
HEAD = """# How well it decides

Written by `scripts/decisions_page.py`; `autodeploy accuracy --decisions` prints the same, and fails with `--baseline` where a
limit of `autodeploy/decide/gate.py` is passed. A *problem*: the runs of one source, software release, model, device, number of
devices, sequence, batch and precision with at least three different strategies. *Folds of families*: the error model is fitted
to two thirds of the families, and believed given the measured problems of the same machine and stack in them. *Leave source
out*: fitted to all other sources; nothing of the problem's own stack is known, as with a user's new cluster. Regret: how much
slower than the measured best the chosen strategy ran. Most problems are dense and on A100, and 130 of them are `vtrain_single`,
whose rows its authors composed from at most 216 independent slopes: read the column by source in the JSON too.

![What was said of the order of two strategies, and how often it was so](reliability.svg)

"""


def main() -> None:
    decisions = decisions_document(judged_runs(read_runs()))
    lines = decision_lines(decisions)
    by_source = [
        "",
        "Regret by source, leave source out (problems; predicted, expected, simplest; first 2 / 2 trials):",
        "",
    ]
    for name, one in decisions["regret"]["by_source"].items():
        rules = ", ".join(f"{one[rule]['mean']:.2%}" for rule in ("predicted", "expected", "simplest"))
        trials = f"{one['top_k']['2']['mean']:.2%} / {one['trials_k']['2']['mean']:.2%}"
        by_source.append(f"- {name} ({one['problems']}): {rules}; {trials}")
    unseen, drawn = decisions["regret"]["unfitted"], decisions["simulated"]
    if unseen:
        rules = ", ".join(f"{rule} {unseen[rule]['mean']:.2%}" for rule in ("predicted", "expected", "simplest"))
        by_source.append(f"- problems of which no fit has seen a row ({unseen['problems']}): {rules}")
    ks = ", ".join(
        f"k={k}: {drawn['top_k'][k]['mean']:.2%} / {drawn['trials_k'][k]['mean']:.2%}" for k in drawn["top_k"]
    )
    by_source += [
        "",
        f"A larger space by simulation ({drawn['rows']} rows, truth drawn from the error model), first k / trials: {ks}.",
    ]
    failed = decision_violations(decisions)
    verdict = ["", "The gate passes." if not failed else "The gate fails: " + "; ".join(failed) + "."]
    text = HEAD + "```\n" + "\n".join(lines) + "\n```\n" + "\n".join([*by_source, *verdict]) + "\n"
    (DOCS / "decisions_accuracy.md").write_text(text, encoding="utf-8")
    (DOCS / "reliability.svg").write_text(reliability_svg(decisions), encoding="utf-8")
    print(verdict[1])


if __name__ == "__main__":
    main()
