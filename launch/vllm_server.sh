#!/usr/bin/env bash
# A vLLM server for hardware.vllm=server, on GPUs of its own: it samples while the others train.
#
#   CUDA_VISIBLE_DEVICES=1 launch/vllm_server.sh Qwen/Qwen2.5-Coder-7B-Instruct
#   CUDA_VISIBLE_DEVICES=0 python recipes/grpo.py hardware=h200 hardware.vllm=server
#
# PORT (8000) and further options of `vllm serve` after the model. Needs: pip install -e ".[vllm]". Not yet run here.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: launch/vllm_server.sh MODEL [option of vllm serve...]" >&2; exit 2; }
command -v vllm > /dev/null || { echo 'error: no vllm on PATH: pip install -e ".[vllm]"' >&2; exit 2; }

# the trainer sends weights over NCCL, and needs the log-probabilities that tokens were drawn with
export VLLM_SERVER_DEV_MODE=1
exec vllm serve "$1" --port "${PORT:-8000}" --weight-transfer-config '{"backend": "nccl"}' \
    --logprobs-mode processed_logprobs --max-logprobs -1 "${@:2}"
