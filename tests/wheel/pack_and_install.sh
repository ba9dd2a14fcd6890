#!/usr/bin/env bash
# pack_and_install.sh BUILD: a wheel of what BUILD has compiled already, so that it takes seconds, then install_wheel.sh. It is no
# wheel to give away: `./dev wheel` makes that. Exit code 77, which ctest shows as skipped, where there is no Python with pip and
# venv, or no scikit-build-core to be had.
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
  echo "skipped: $*"
  exit 77
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
command -v python3 >/dev/null || skip "there is no python3"
python3 -m venv "$folder/tools" 2>/dev/null || skip "python3 has no venv and pip"
PIP_DEFAULT_TIMEOUT=5 "$folder/tools/bin/python" -m pip install --quiet --disable-pip-version-check --retries 0 \
  'scikit-build-core>=0.10' || skip "scikit-build-core cannot be had"
"$folder/tools/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir "$folder/dist" -Ccmake.source-dir=tests/wheel/prebuilt -Cbuild-dir="$folder/cmake" \
  -Ccmake.define.MEMEST_BUILD="$build" "$here/../.."
"$here/install_wheel.sh" "$folder"/dist/*.whl
