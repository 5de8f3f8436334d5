#!/usr/bin/env bash
# A stretch of speaking on a machine of any number of GPUs that has no network: bash speaking.sh HERE OUT SECONDS
# HERE and OUT are as for hearing.sh. Kokoro speaks for MAKE seconds. After FIRST of them the codec's encoder begins to
# learn, for CODEC seconds, on the last GPU, unless it came along. Then all speech becomes codes, and the talker learns.
set -uo pipefail
HERE=$(realpath "$1") OUT=$2 UNTIL=$(($(date +%s) + $3))
. "$HERE/tree/training/card/common.sh"
((GPUS == 1)) && usual=330 || usual=$((100 + 600 / GPUS))
MAKE=${MAKE:-$((usual > 200 ? usual : 200))} FIRST=${FIRST:-80} CODEC=${CODEC:-240} SPEAKERS=${SPEAKERS:-5}
HOURS=${HOURS:-1000} SEED=${SEED:-$(date +%s)} PARTS=${PARTS:-6}

wait_for script.npz drills.npz kokoro/kokoro.safetensors kokoro/voices.safetensors
for ((i = 0; i < GPUS * SPEAKERS; i++)); do
  seconds=$MAKE
  ((GPUS > 1 && i % GPUS == GPUS - 1)) && ! [[ -e back/codec/parts.json ]] && seconds=$FIRST
  on $((i % GPUS)) make-$i -m training.speech make --weights kokoro --script script.npz drills.npz --speaking made \
    --hours "$HOURS" --others 0.5 --share $i/$((GPUS * SPEAKERS)) --seconds "$seconds" --seed "$SEED" \
    --device "$DEVICE" &
  makers+=($!)
done
began=$(date +%s)

wait_for readers.tsv ear/model.safetensors begin/codec/parts.json begin/talker/parts.json tokenizer/tokenizer.json \
  en-voice-00.tar
[[ -e readers ]] || on 0 recordings -m training.tts recordings en-train-0*.tar en-voice-00.tar --sounds readers.tsv \
  --out readers
say "readers: $(ls readers/*.npz | wc -l) shards"

codec=back/codec
if ! [[ -e $codec/parts.json ]]; then
  codec=$OUT/codec/weights
  while (($(date +%s) < began + FIRST)) || ! compgen -G "made/*.npz" > /dev/null; do sleep 1; done
  mkdir -p first && ln -f made/*.npz readers/*.npz first/
  on $((GPUS - 1)) codec -m training.tts codec --start begin/codec --speech first --ear ear --out "$OUT/codec" \
    --seconds "$CODEC" --scale "$SCALE" --device "$DEVICE" &
  learning=$!
fi
wait "${makers[@]}"
say "Kokoro: $(ls made/*.npz | wc -l) shards"
[[ ${learning:-} ]] && wait "$learning" && rm -rf "$OUT/codec/state"

number=0
for shard in made/*.npz readers/*.npz; do
  mkdir -p "parts/$((number % PARTS))" && ln -f "$shard" "parts/$((number++ % PARTS))/"
done
for part in parts/*; do
  i=${part#parts/}
  on $((i % GPUS)) encode-$i -m training.tts encode --codec "$codec" --speech "$part" --out "codes-$i.npz" \
    --device "$DEVICE" &
  encoders+=($!)
done
wait "${encoders[@]}"

learn() {
  local state=()
  [[ -e back/state/parts.json ]] && state=(--state back/state)
  many talker training.tts talker --start begin/talker --codes codes-*.npz --speech made readers \
    --tokenizer tokenizer/tokenizer.json --out "$OUT/talker" "${state[@]}" --device "$DEVICE" --scale "$SCALE" --seconds 1000000 \
    --until "$UNTIL"
}
again learn
