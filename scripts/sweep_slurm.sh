#!/usr/bin/env bash
#SBATCH --job-name=autodeploy-sweep
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
# One shard of a sweep per task of a Slurm job array; a task that is killed or requeued goes on where it was.
#
#   sbatch --array=1-8 scripts/sweep_slurm.sh sweep.yaml results/
#   cat results/*.jsonl > all.jsonl && autodeploy sweep sweep.yaml --output all.jsonl --csv all.csv
set -euo pipefail

file="${1:?a sweep file}" folder="${2:?a folder for the results}"
index="${SLURM_ARRAY_TASK_ID:?start it with sbatch --array=1-N}" count="${SLURM_ARRAY_TASK_MAX:-$SLURM_ARRAY_TASK_COUNT}"
mkdir -p "$folder"
exec "${AUTODEPLOY:-autodeploy}" sweep "$file" --shard "$index/$count" --output "$folder/$index-of-$count.jsonl" --format csv
