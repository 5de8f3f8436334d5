#!/usr/bin/env bash
# A stretch of speaking on a machine of any number of GPUs that has no network: bash speaking.sh HERE OUT SECONDS
# HERE and OUT are as for hearing.sh. Kokoro speaks for MAKE seconds. After FIRST of them the codec's encoder begins to
# learn, for CODEC seconds, on the last GPU, or goes on from what came along (0: that stays as it is). Then all speech
# becomes codes, and the talker learns. The codec's decoder stays as it is. For JUDGE seconds beside the talker the
# discriminators learn to tell what it decodes, and their state is for a stretch with LISTEN=1. There the decoder learns
# too, once the talker has left weights, for speech and for that talker's own codes of a part of the speech. Against
# discriminators that began from nothing a decoder which had learnt for long got worse. READERS names the sources of
# recordings from which it is learnt how speakers sound (training/tts/recordings.py).
set -uo pipefail
HERE=$(realpath "$1") OUT=$2 UNTIL=$(($(date +%s) + $3))
. "$HERE/tree/training/card/common.sh"
((GPUS == 1)) && usual=330 || usual=$((100 + 600 / GPUS))
MAKE=${MAKE:-$((usual > 200 ? usual : 200))} FIRST=${FIRST:-80} CODEC=${CODEC:-240} SPEAKERS=${SPEAKERS:-5}
HOURS=${HOURS:-1000} SEED=${SEED:-$(date +%s)} PARTS=${PARTS:-6} LISTEN=${LISTEN:-0}
JUDGE=${JUDGE:-$((LISTEN ? 240 : 0))}

wait_for script.npz drills.npz kokoro/kokoro.safetensors kokoro/voices.safetensors
for ((i = 0; i < GPUS * SPEAKERS; i++)); do
  seconds=$MAKE
  ((GPUS > 1 && i % GPUS == GPUS - 1 && CODEC)) && seconds=$FIRST
  on $((i % GPUS)) make-$i -m training.speech make --weights kokoro --script script.npz drills.npz --speaking made \
    --hours "$HOURS" --others 0.5 --share $i/$((GPUS * SPEAKERS)) --seconds "$seconds" --seed "$SEED" \
    --device "$DEVICE" &
  makers+=($!)
done
began=$(date +%s)

wait_for readers.tsv ear/model.safetensors begin/codec/parts.json begin/talker/parts.json tokenizer/tokenizer.json \
  en-voice-00.tar
[[ -e readers ]] || on 0 recordings -m training.tts recordings en-train-0*.tar en-voice-00.tar --sounds readers.tsv \
  --out readers ${READERS:+--sources $READERS}
say "readers: $(ls readers/*.npz | wc -l) shards"

# Readers have no phone labels, and an encoder that learns from them as they are gives codebook 0 of all they say one
# entry. So it learns from Kokoro alone, heard as if recorded.
codec=begin/codec
[[ -e back/codec/parts.json ]] && codec=back/codec
if ((CODEC)); then
  while (($(date +%s) < began + FIRST)) || ! compgen -G "made/*.npz" > /dev/null; do sleep 1; done
  mkdir -p first && ln -f made/*.npz first/
  on $((GPUS - 1)) codec -m training.tts codec --start "$codec" --speech first --ear ear --out "$OUT/codec" \
    --seconds "$CODEC" --scale "$SCALE" --device "$DEVICE" &
  learning=$! codec=$OUT/codec/weights
fi
wait "${makers[@]}"
say "Kokoro: $(ls made/*.npz | wc -l) shards"
[[ ${learning:-} ]] && wait "$learning" && rm -rf "$OUT/codec/state"

number=0
for shard in made/*.npz; do
  mkdir -p "parts/$((number % PARTS))" && ln -f "$shard" "parts/$((number++ % PARTS))/"
done
mkdir -p "parts/$PARTS" && ln -f readers/*.npz "parts/$PARTS/"
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
listen() {
  local judges=()
  [[ -e back/judges/parts.json ]] && judges=(--judges back/judges)
  if ((JUDGE)); then
    on $((GPUS - 1)) judges -m training.tts decoder --alone "${judges[@]}" --start "$codec" --speech parts/0 \
      --codes codes-0.npz --out "$OUT/judges" --device "$DEVICE" --scale "$SCALE" --seconds "$JUDGE" --until "$UNTIL"
    judges=(--judges "$OUT/judges/state")
  fi
  ((LISTEN)) || return
  wait_for "$OUT/talker/weights/parts.json"
  cp -r "$OUT/talker/weights" listened
  on $((GPUS - 1)) own -m training.tts own-codes --talker listened --codes codes-0.npz --speech parts/0 \
    --tokenizer tokenizer/tokenizer.json --out own-0.npz --device "$DEVICE"
  on $((GPUS - 1)) decoder -m training.tts decoder --start "$codec" --speech parts/0 --codes codes-0.npz own-0.npz \
    "${judges[@]}" --ear ear --out "$OUT/decoder" --device "$DEVICE" --scale "$SCALE" --seconds 1000000 --until "$UNTIL"
}
((JUDGE || LISTEN)) && { listen & }
again learn
wait
