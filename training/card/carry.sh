#!/usr/bin/env bash
# Makes a checkout small enough to be carried to a machine beside a bundle, or whole again:
#   bash training/card/carry.sh small [DIR]     this checkout, or a new worktree of its commit in DIR
#   bash training/card/carry.sh whole [DIR]     everything is back
# A call to a machine carries 64 MiB, a bundle has 58 of them (training/bundles.py), and the models alone have 84. What
# stays is the code, which is what a machine needs beside its bundles; `git status` stays clean.
set -euo pipefail
ROOT=$(cd "$(dirname "$0")" && git rev-parse --show-toplevel)
WHAT=${1:-} DIR=${2:-$ROOT} MOST=$((6 << 20)) # bytes that are left for the checkout

case $WHAT in
  small)
    [[ -e $DIR ]] || git -C "$ROOT" worktree add --quiet --detach --no-checkout "$DIR" HEAD
    # The folders below models/ and all tests leave; models/__init__.py, which runs import, stays.
    git -C "$DIR" sparse-checkout set --no-cone '/*' '!/models/*/' '!/tests/'
    git -C "$DIR" read-tree -mu HEAD
    ;;
  whole) git -C "$DIR" sparse-checkout disable ;;
  *)
    sed -n '2,4s/^# *//p' "$0" >&2
    exit 2
    ;;
esac

# The files that travel: those of Git that are there, and those that nothing ignores.
size=$(cd "$DIR" && git ls-files -z --cached --others --exclude-standard --deduplicate |
  { xargs -0 stat -c %s 2> /dev/null || true; } | awk '{sum += $1} END {print sum + 0}') # stat leaves out what is not there
echo "$DIR: $((size / 1000)) kB travel"
[[ $WHAT == whole ]] && exit
((size <= MOST)) || { echo "more than $((MOST / 1000)) kB: a bundle does not fit beside it" >&2; exit 1; }
cd "$DIR" && python3 -c 'import training.bundles, training.card.collect, training.clones' # nothing but Python is needed
for script in training/card/*.sh; do bash -n "$script"; done
