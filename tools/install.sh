#!/bin/sh
# Installs hearsay from this archive, without a network: ./install.sh [DIR], ~/hearsay without one.
# It needs Python @PYTHON@ with venv; PYTHON names another than python@PYTHON@.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$HOME/hearsay}
python=${PYTHON:-python@PYTHON@}

refuse() { echo "hearsay is not installed: $1" >&2; exit 1; }

"$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "@PYTHON@")' 2>/dev/null ||
    refuse "$python is not Python @PYTHON@, which this archive is for (PYTHON=... names it)."
[ ! -e "$target" ] || [ -z "$(ls -A "$target")" ] || refuse "$target holds something already; name another directory."
if [ -r /proc/cpuinfo ]; then
    for feature in $(cat "$here/cpu"); do
        grep -qw "$feature" /proc/cpuinfo ||
            refuse "this processor has no $feature, which the archive was compiled for; make the bundle on one like it."
    done
fi
if command -v sha256sum >/dev/null; then sums="sha256sum"; else sums="shasum -a 256"; fi
(cd "$here" && $sums -c SHA256SUMS >/dev/null 2>&1) || refuse "the archive is damaged (SHA256SUMS); copy it once more."

[ -e "$target" ] && mine="$target/*" || mine=$target
# shellcheck disable=SC2086
trap 'rm -rf $mine' EXIT
"$python" -m venv "$target" || refuse "Python's venv is missing (Debian, Ubuntu: apt install python@PYTHON@-venv)."
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1
"$target/bin/python" -m pip --isolated install -q --no-index --no-deps "$here"/wheels/*.whl ||
    refuse "a wheel of the archive does not fit this system; the reason is above."
if [ -d "$here/models" ]; then
    cp -R "$here/models/." "$("$target/bin/python" -c 'import hearsay, os; print(os.path.dirname(hearsay.__file__))')/models/"
fi
"$target/bin/hearsay" doctor || refuse "it cannot hear here; the reason is above."
trap - EXIT
echo "hearsay is installed. Try: $target/bin/hearsay demo"
