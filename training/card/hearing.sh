#!/usr/bin/env bash
# A stretch of hearing on a machine of any number of GPUs that has no network: bash hearing.sh HERE OUT SECONDS
# HERE is the folder into which bundles are unpacked (training/bundles.py), each when it comes; what is missing is waited
# for. OUT gets log, labels, state and weights. Kokoro speaks for MAKE seconds, while bundles come, clips are labelled
# unless their labels came along, the trainer decodes them, and a rehearsal of at most REHEARSE seconds fills the
# compilers' cache (0: none). Then the model learns. FALL=0 is for all stretches but the last: the rate stays.
set -uo pipefail
HERE=$(realpath "$1") OUT=$2 UNTIL=$(($(date +%s) + $3))
. "$HERE/tree/training/card/common.sh"
MAKE=${MAKE:-120} SEED=${SEED:-$(date +%s)} SPEAKERS=${SPEAKERS:-4} LABELLERS=${LABELLERS:-3} HOURS=${HOURS:-1000}
FALL=${FALL:-1}
[[ $DEVICE == cuda ]] && compiles=120 || compiles=0
REHEARSE=${REHEARSE:-$compiles}

wait_for script.npz kokoro/kokoro.safetensors kokoro/voices.safetensors
for ((i = 0; i < GPUS * SPEAKERS; i++)); do
  on $((i % GPUS)) make-$i -m training.speech make --weights kokoro --script script.npz --hearing made --hours "$HOURS" \
    --share $i/$((GPUS * SPEAKERS)) --seconds "$MAKE" --seed "$SEED" --device "$DEVICE" &
  makers+=($!)
done

rehearse() {
  local state=()
  wait_for start/config.json start/tokenizer.json whisper/encoder.safetensors
  [[ -e back/state/parts.json ]] && state=(--state back/state)
  many rehearse training.asr rehearse --start start --teacher whisper "${state[@]}" --device "$DEVICE" --scale "$SCALE" \
    --seconds "$REHEARSE"
}
((REHEARSE)) && { rehearse & rehearsing=$!; }

labels=()
if compgen -G "back/labels/*.jsonl" > /dev/null; then
  labels=(back/labels/*.jsonl)
else
  for ((i = 0; i < GPUS * LABELLERS; i++)); do labels+=("$OUT/labels/$i.jsonl"); done
fi
wait_for test-index.jsonl start/tokenizer.json whisper/encoder.safetensors en-voice-00.tar # the last that comes
state=()
if [[ -e back/state/parts.json ]]; then
  state=(--state back/state)
  wait_for $(parts back/state)
else
  wait_for start/model.safetensors
fi
((FALL)) && fall=--fall || fall=--no-fall
shards=$(ls en-train-0*.tar en-voice-00.tar)
mkdir -p "$OUT/labels"

learn() {
  many train training.asr train --shards $shards --script script.npz --start start --teacher whisper \
    --labels "${labels[@]}" --synthetic made --ready "$OUT/ready" --out "$OUT" "${state[@]}" "$fall" \
    --device "$DEVICE" --scale "$SCALE" --seconds $((UNTIL - $(date +%s))) --until "$UNTIL"
}
again learn &
learning=$!

if [[ ${labels[0]} == back/* ]]; then
  cp "${labels[@]}" "$OUT/labels"
else
  wait_for ear/model.safetensors ear/tokenizer.json whisper/decoder.safetensors whisper/tokenizer.json
  for ((i = 0; i < GPUS * LABELLERS; i++)); do
    on $((i % GPUS)) label-$i -m training.asr label --teacher whisper --ear ear --shards $shards \
      --never test-index.jsonl --share $i/$((GPUS * LABELLERS)) --out "$OUT/labels/$i.jsonl" --device "$DEVICE" &
    labellers+=($!)
  done
  wait "${labellers[@]}"
fi
say "labels: $(cat "$OUT"/labels/*.jsonl | wc -l)"
wait "${makers[@]}"
say "Kokoro: $(ls made/*.json | wc -l) shards"
[[ ${rehearsing:-} ]] && wait "$rehearsing" && say "rehearsed"
touch "$OUT/ready"
wait "$learning"
