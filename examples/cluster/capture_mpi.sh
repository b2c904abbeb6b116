#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sbatch --ntasks=8 capture_mpi.sh OUT OPTION...    All tasks make one capture in OUT, which every node must see.
# OPTIONs are those of qkgeom capture, without --out. The same command again, with any number of tasks, goes on where an
# interrupted one was.
#SBATCH --job-name=qkgeom-capture
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=16
#SBATCH --mem-per-cpu=4G
#SBATCH --time=08:00:00
#SBATCH --requeue
set -euo pipefail
out=$1
shift
# --mpi=pmix: srun tells the processes of one another. --kill-on-bad-exit: a lost rank ends the job.
exec srun --mpi="${QKGEOM_SRUN_MPI:-pmix}" --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1 \
  qkgeom capture "$@" --threads "${SLURM_CPUS_PER_TASK:-1}" --resume --out "$out"
