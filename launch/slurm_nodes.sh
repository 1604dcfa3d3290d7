#!/usr/bin/env bash
# A recipe on several nodes under SLURM: accelerate on each, one rendezvous. Not yet run on a cluster; tested with a
# stand-in for srun and two CPU processes.
# sbatch launch/slurm_nodes.sh recipes/grpo.py hardware=slurm_nodes
# sbatch --nodes=4 --gres=gpu:8 launch/slurm_nodes.sh recipes/grpo.py hardware=slurm_nodes recipe.prompts_per_step=32
# ACTIVATE=/path/to/venv/bin/activate PORT=29501 sbatch launch/slurm_nodes.sh ...
# Submit from the repository's root, on a file system that every node sees; after a preemption SLURM starts it again and
# it goes on from the last checkpoint. What the recipe is given after its name are Hydra's overrides, as ever.
#SBATCH --job-name=codegrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@300
#SBATCH --output=slurm-%j.log
set -euo pipefail

fail() { echo "slurm_nodes: $*" >&2; exit 2; }

[ -n "${SLURM_JOB_ID:-}" ] || fail "start it with sbatch: sbatch launch/slurm_nodes.sh recipes/grpo.py hardware=slurm_nodes"
[ -f "${1:-}" ] || fail "the first argument is a recipe, seen from the repository's root: recipes/grpo.py"
ACTIVATE="${ACTIVATE:-.venv/bin/activate}"
[ -f "$ACTIVATE" ] || fail "no $ACTIVATE: submit from the repository's root, or set ACTIVATE to your environment's"
# shellcheck disable=SC1090
source "$ACTIVATE"

NODES="$SLURM_JOB_NUM_NODES"
PER_NODE="${PER_NODE:-${SLURM_GPUS_ON_NODE:-4}}"
[[ "$PER_NODE" =~ ^[1-9][0-9]*$ ]] || fail "PER_NODE=$PER_NODE: it must be a number of at least 1"
PORT="${PORT:-$((20000 + SLURM_JOB_ID % 20000))}"
[[ "$PORT" =~ ^[1-9][0-9]{0,4}$ && "$PORT" -le 65535 ]] || fail "PORT=$PORT: it must be a number from 1 to 65535"
HOSTS="$(scontrol show hostnames "$SLURM_JOB_NODELIST")" || fail "scontrol cannot name the nodes of $SLURM_JOB_NODELIST"
FIRST="${HOSTS%%$'\n'*}"
[ -n "$FIRST" ] || fail "scontrol names no node of $SLURM_JOB_NODELIST"
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-270}"   # to save, once told to stop

# $SLURM_NODEID is each task's own, so it is left to the node's shell
# shellcheck disable=SC2016
srun --nodes="$NODES" --ntasks="$NODES" --ntasks-per-node=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1 \
    bash -c 'exec accelerate launch --config_file launch/slurm_nodes.yaml \
        --num_machines "$0" --num_processes "$1" --machine_rank "$SLURM_NODEID" \
        --main_process_ip "$2" --main_process_port "$3" "${@:4}"' \
    "$NODES" "$((NODES * PER_NODE))" "$FIRST" "$PORT" "$@"
