#!/usr/bin/env bash
# Speaking models' exports against the official code (qwen-tts, which needs transformers 4.57): part of `make reference`.
#
# Makes .envs/reference-tts: .venv's packages plus torch, onnx and the official code, whose own dependencies (gradio,
# torchaudio) its 12 Hz models do not need. REFERENCE_TTS_PYTHON names an interpreter of such an environment instead.
set -euo pipefail
cd "$(dirname "$0")/../../.."
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
directory=.envs/reference-tts
requirements=(requirements/torch.txt requirements/reference-tts.txt)

if [[ -z ${REFERENCE_TTS_PYTHON:-} ]]; then
  stamp=$(cat "${requirements[@]}" "$0" | sha256sum | cut -c1-64)
  if [[ ! -f $directory/stamp || $(<"$directory/stamp") != "$stamp" ]]; then
    echo "Making $directory."
    .venv/bin/python -m venv --clear "$directory"
    "$directory/bin/python" -m pip install -q --disable-pip-version-check -r "${requirements[0]}" -r "${requirements[1]}"
    "$directory/bin/python" -m pip install -q --disable-pip-version-check --no-deps qwen-tts==0.1.1 sox==1.5.0
    # What the runtime and its tests need is there already, llama.cpp compiled for this machine included.
    .venv/bin/python - "$directory" <<'PYTHON'
import sys, sysconfig
from pathlib import Path
own = sysconfig.get_path("purelib")
theirs = sysconfig.get_path("purelib", vars={"base": str(Path(sys.argv[1]).resolve())})
Path(theirs, "hearsay-runtime.pth").write_text(f"import site; site.addsitedir({own!r})\n")
PYTHON
    echo "$stamp" >"$directory/stamp"
  fi
  REFERENCE_TTS_PYTHON=$directory/bin/python
fi
if [[ -z ${ORT124_PYTHON:-} && -x .envs/ort124/bin/python ]]; then
  ORT124_PYTHON=.envs/ort124/bin/python
fi

if [[ ${1:-} == --true-dims ]]; then
  shift
  exec "$REFERENCE_TTS_PYTHON" -W ignore -m tests.reference.tts.true_dims "$@"
fi
if [[ ${1:-} == --true-models ]]; then
  shift
  exec "$REFERENCE_TTS_PYTHON" -W ignore -m tests.reference.tts.true_models "$@"
fi
HEARSAY_REFERENCE=tts HEARSAY_ORT124=${ORT124_PYTHON:-} \
  "$REFERENCE_TTS_PYTHON" -m pytest ${REFERENCE_PYTEST:--q -W default -p no:logging --disable-warnings} tests/reference/tts "$@"
