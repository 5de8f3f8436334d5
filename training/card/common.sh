# This is what both scripts need: the packages that came along, a process on a GPU or one on each, a log, and files that
# come later. DEVICE is cuda or cpu, GPUS tells how many are used (default: all), from number FIRST_GPU on, and SCALE how
# large a step is beside the configured one, where memory or time is short.
DEVICE=${DEVICE:-cuda} SCALE=${SCALE:-1} FIRST_GPU=${FIRST_GPU:-0}
GPUS=${GPUS:-$(nvidia-smi -L 2> /dev/null | wc -l)}
((GPUS)) || GPUS=1
mkdir -p "$OUT" && OUT=$(realpath "$OUT") && cd "$HERE" || exit 1
exec >> "$OUT/log" 2>&1
export PYTHONPATH=$HERE/tree:$HERE/site PYTHONUNBUFFERED=1

say() { echo "[$(date +%T), $((UNTIL - $(date +%s))) s left] $*"; }

# wait_for FILE…: waits until the files are whole, and gives up when the time is over.
wait_for() {
  local file
  for file; do
    until [[ -e $file ]]; do
      (($(date +%s) < UNTIL)) || { say "without $file"; exit 1; }
      sleep 1
    done
  done
  say "there: $*"
}

# parts FOLDER: names the files of a state or of weights (training/parts.py), which may still be on their way.
parts() { python3 -c 'import json, sys; print(*(f"{sys.argv[1]}/{f}" for f in json.load(open(f"{sys.argv[1]}/parts.json"))["files"]))' "$1"; }

# on GPU NAME ARGUMENTS…: runs Python on one GPU, and marks its lines of the log.
on() {
  local gpu=$1 name=$2
  shift 2
  CUDA_VISIBLE_DEVICES=$((FIRST_GPU + gpu)) OMP_NUM_THREADS=${OMP_NUM_THREADS:-4} python3 "$@" 2>&1 | sed -u "s/^/$name: /"
}

# many NAME MODULE ARGUMENTS…: runs a process on each GPU, which together are one run.
many() {
  local name=$1 module=$2
  shift 2
  if ((GPUS == 1)); then
    on 0 "$name" -m "$module" "$@"
  else
    CUDA_VISIBLE_DEVICES=$(seq -s, "$FIRST_GPU" $((FIRST_GPU + GPUS - 1))) OMP_NUM_THREADS=4 \
      python3 -m torch.distributed.run --standalone --nproc-per-node "$GPUS" -m -- "$module" "$@" 2>&1 | sed -u "s/^/$name: /"
  fi
}

# again COMMAND…: runs a command. A run that broke begins anew from its state while there is time.
again() {
  local tries
  for tries in 1 2 3; do
    "$@" && { say "done"; touch "$OUT/done"; return; }
    (($(date +%s) + 120 < UNTIL)) || break
    say "again"
  done
  touch "$OUT/done"
}

if ! [[ -e site ]]; then
  python3 -m pip install -q --no-index --no-deps --no-compile --find-links wheels --target site.new \
    soundfile soxr cffi pycparser jiwer rapidfuzz click num2words msgspec && mv site.new site
fi
python3 -c 'import torch; print("torch", torch.__version__, torch.cuda.device_count(), "GPUs")'
say "$GPUS processes on $DEVICE"
