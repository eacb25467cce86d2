#!/usr/bin/env bash
# The best strategies of several models on several cluster sizes, as one CSV.
#
#   scripts/sweep.sh HARDWARE "MODEL ..." "CARDS ..." [search options] > sweep.csv
#   scripts/sweep.sh h100-sxm "llama-3-70b qwen3-30b-a3b" "64 128 256" --seq-length 8192 --global-batch 1024 --top 3
#
# A case in which nothing fits adds no row and is named on standard error. In a job array, give each task its own models.
set -euo pipefail

if [ "$#" -lt 3 ]; then
  sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//' >&2
  exit 2
fi
hardware="$1" models="$2" sizes="$3"
shift 3
autodeploy="${AUTODEPLOY:-$(dirname "$0")/../.venv/bin/autodeploy}"
[ -x "$autodeploy" ] || autodeploy=autodeploy

header=""
part="$(mktemp)"
trap 'rm -f "$part"' EXIT
for model in $models; do
  for devices in $sizes; do
    code=0
    "$autodeploy" search "$model" --hardware "$hardware" --devices "$devices" --format csv "$@" >"$part" || code=$?
    case "$code" in
      0) ;;
      3) echo "$model on $devices x $hardware: nothing fits" >&2; continue ;;
      *) echo "$model on $devices x $hardware: failed with exit code $code" >&2; exit "$code" ;;
    esac
    columns="$(head -n 1 "$part")"
    if [ -z "$header" ]; then
      header="$columns"
      echo "$header"
    elif [ "$columns" != "$header" ]; then
      echo "$model on $devices x $hardware: other columns than before" >&2
      exit 1
    fi
    tail -n +2 "$part"
  done
done
