#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sbatch --array=1-8 capture_array.sh OUT OPTION...    Each task of the array captures one part into OUT.parts/.
# OPTIONs are those of qkgeom capture, without --out. A task that is run again goes on where it was. When all are done:
#   qkgeom merge OUT.parts/* --out OUT
#SBATCH --job-name=qkgeom-capture
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=08:00:00
#SBATCH --requeue
set -euo pipefail
out=$1
shift
parts=${SLURM_ARRAY_TASK_MAX:?"to be started with sbatch --array=1-N"}
if ((SLURM_ARRAY_TASK_MIN != 1)); then
  echo "The array must be 1-N: parts are counted from 1." >&2
  exit 2
fi
mkdir -p "$out.parts"
# A count of N keeps its parts apart from those of another count.
exec qkgeom capture "$@" --part "$SLURM_ARRAY_TASK_ID/$parts" --threads "${SLURM_CPUS_PER_TASK:-1}" --resume \
  --out "$out.parts/$(printf '%05d-of-%05d' "$SLURM_ARRAY_TASK_ID" "$parts")"
