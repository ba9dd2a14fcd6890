#!/usr/bin/env bash
# install_wheel.sh FILE...: installs the wheel among FILEs into an empty virtual environment, without a package index, and holds the
# program and the Python package of it to what the README prints and to tests/python.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for file in "$@"; do
  [[ $file != *.whl ]] || wheel=$file
done
: "${wheel:?no wheel among the files}"
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-index "$wheel"
[[ $(python3 -m zipfile --list "$wheel") == */THIRD-PARTY-NOTICES\ * ]]  # of what is linked statically

export MEMEST_PROGRAM=$environment/bin/memest
"$MEMEST_PROGRAM" plan configs/models/llama-3-8b.yaml --gpus 8 >"$environment/plan.txt"
head -n 4 "$environment/plan.txt"
while IFS= read -r line; do
  grep -qxF -- "$line" README.md || { echo "the README has no line '$line'" && exit 1; }
done < <(sed -n 2,14p "$environment/plan.txt")
[[ $("$environment/bin/python" -m memest --version) == "$("$MEMEST_PROGRAM" --version)" ]]
(cd "$environment" && bin/python "$OLDPWD/tests/python/memest_test.py")
