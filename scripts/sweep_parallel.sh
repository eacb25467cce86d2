#!/usr/bin/env bash
# A sweep in N shards at once on this machine: by GNU parallel where it is installed, else by xargs.
#
#   scripts/sweep_parallel.sh sweep.yaml results/ 4
set -euo pipefail

file="${1:?a sweep file}" folder="${2:?a folder for the results}" count="${3:?how many shards}"
export autodeploy="${AUTODEPLOY:-autodeploy}" file folder count
mkdir -p "$folder"
shard() { "$autodeploy" sweep "$file" --shard "$1/$count" --output "$folder/$1-of-$count.jsonl" --format csv >/dev/null; }
export -f shard
if command -v parallel >/dev/null; then
  parallel --will-cite -j "$count" shard ::: $(seq "$count")
else
  seq "$count" | xargs -P "$count" -I{} bash -c 'shard {}'
fi
cat "$folder"/*-of-"$count".jsonl >"$folder/all.jsonl"
exec "$autodeploy" sweep "$file" --output "$folder/all.jsonl" --csv "$folder/all.csv"
