#!/usr/bin/env bash
# Fails (exit 1) when the cost model got less accurate than the committed baseline. For CI.
#
#   scripts/accuracy_gate.sh                         the shipped runs against the shipped baseline
#   scripts/accuracy_gate.sh RUNS... -- BASELINE     your folders of runs against your baseline
#   UPDATE=1 scripts/accuracy_gate.sh ...            also record today's figures in the baseline
set -euo pipefail

runs=()
baseline=""
while (($#)); do
  if [[ $1 == -- ]]; then
    baseline=${2:?"-- needs the path of a baseline file"}
    shift 2
  else
    runs+=("$1")
    shift
  fi
done
python=${PYTHON:-python}
if [[ -z $baseline ]]; then
  baseline=$("$python" -c 'from autodeploy.accuracy import shipped_baseline; print(shipped_baseline())')
fi

options=(--baseline "$baseline")
if [[ ${UPDATE:-0} == 1 ]]; then
  options=(--write-baseline "$baseline")
fi
exec "$python" -m autodeploy accuracy "${runs[@]}" "${options[@]}"
