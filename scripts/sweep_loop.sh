#!/usr/bin/env bash
# A sweep shard after shard, each tried again once if it was killed: what a cron job or a pre-emptible machine needs.
#
#   scripts/sweep_loop.sh sweep.yaml results.jsonl 4
set -euo pipefail

file="${1:?a sweep file}" output="${2:?a file for the results}" count="${3:-1}"
for index in $(seq "$count"); do
  for _ in 1 2; do
    code=0
    "${AUTODEPLOY:-autodeploy}" sweep "$file" --shard "$index/$count" --output "$output" --format csv >/dev/null || code=$?
    [ "$code" -gt 128 ] || break # a signal: go on with what is left
  done
  case "$code" in 0 | 3) ;; *) exit "$code" ;; esac
done
exec "${AUTODEPLOY:-autodeploy}" sweep "$file" --output "$output"
