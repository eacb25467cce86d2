#!/usr/bin/env bash
# The walk of docs/decisions.md: search, three trials (reference runs replayed as if measured), decision. Prints everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
autodeploy=${AUTODEPLOY:-.venv/bin/autodeploy}
runs=autodeploy/accuracy/runs/hagemann.csv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export COLUMNS=100

cat > "$work/llama-65b.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 22016,
 "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 64, "vocab_size": 128000}
JSON
job=("$work/llama-65b.json" --hardware a100-80g-sxm --devices 64 --seq-length 2048 --global-batch 2048 --stack scaling-2023
     --vpp 1 --cp 1 --recompute none --zero 1 --swap 0 --offload 0 --tokens 1T --method exhaustive)

echo "== search"
"$autodeploy" search "${job[@]}" --top 6
echo "== trials"
"$autodeploy" trials "${job[@]}" --runs 3
for trial in 131654 131649 131656; do  # TP2/PP8, TP4/PP4/MBS2, TP4/PP2: what the trials name, as measured
  echo "== measured: $(awk -F, -v id="hagemann-65b-s2048-n64-trial$trial" '$1 == id {print $1}' "$runs")"
  { [ -s "$work/mine.csv" ] || head -n 1 "$runs"; grep "^hagemann-65b-s2048-n64-trial$trial," "$runs"; } >> "$work/mine.csv"
done
echo "== search with the three runs"
"$autodeploy" search "${job[@]}" --top 6 --measured "$work/mine.csv"
echo "== trials after them"
"$autodeploy" trials "${job[@]}" --runs 3 --measured "$work/mine.csv"
