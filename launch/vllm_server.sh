#!/usr/bin/env bash
# A vLLM server for hardware.vllm=server: it samples while the trainer trains, on GPUs of its own or on a CPU.
#
#   CUDA_VISIBLE_DEVICES=1 launch/vllm_server.sh Qwen/Qwen2.5-Coder-7B-Instruct
#   CUDA_VISIBLE_DEVICES=0 python recipes/grpo.py hardware=h200 hardware.vllm=server
#
#   PYTHON=.venv-vllm/bin/python launch/vllm_server.sh MODEL      on a CPU, after make .venv-vllm/.installed
#
# PORT (8000), PYTHON (python) and further options of vLLM's server after the model. From a GPU weights come over NCCL, from
# a CPU through a folder below TMPDIR, so trainer and server are on one machine. GPU: pip install -e ".[vllm]", not yet run.
set -euo pipefail
USAGE="usage: launch/vllm_server.sh MODEL [option of vLLM's server...]"
case "${1:-}" in
    -h | --help) echo "$USAGE"; exit 0 ;;
    "" | -*) echo "$USAGE" >&2; exit 2 ;;
esac
PYTHON="${PYTHON:-python}"
command -v "$PYTHON" >/dev/null || { echo "error: PYTHON=$PYTHON cannot be run: it must be a Python with vllm" >&2; exit 2; }
"$PYTHON" -c 'import importlib.util as i, sys; sys.exit(i.find_spec("vllm") is None)' || {
    echo "error: $PYTHON has no vllm: pip install -e \".[vllm]\", or set PYTHON" >&2
    exit 2
}
# a CPU's: to compile takes minutes, and 0.27.1 ends with a RuntimeError where it reads a prompt with a seed in parts
device=(--enforce-eager --no-enable-chunked-prefill)
if "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then device=(--weight-transfer-config '{"backend": "nccl"}'); fi

# endpoints that weights come by; the log-probabilities that tokens were drawn with
export VLLM_SERVER_DEV_MODE=1
PYTHONPATH="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONPATH
exec "$PYTHON" -m vllm.entrypoints.openai.api_server --model "$1" --port "${PORT:-8000}" --host 127.0.0.1 \
    "${device[@]}" --worker-extension-cls vllm_weights_from_folder.WeightsFromFolder \
    --generation-config vllm --logprobs-mode processed_logprobs --max-logprobs -1 "${@:2}"
