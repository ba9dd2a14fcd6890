"""Makes records anew on the null device and holds them to those of tests/truth.

usage: remake.py MEMEST PYTHON [ID...]

PYTHON has PyTorch and transformers of the records' releases. Without IDs every case is made, which takes some minutes. Exit code 1:
a record differs; its first differences are printed.
"""

import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

from to_records import measured

HERE = pathlib.Path(__file__).resolve().parent
GPUS = {"A100": "a100-sxm-80gb", "RTX4090": "rtx-4090", "H100": "h100-sxm-80gb", None: "h200-sxm-141gb"}
# Counted in another forward, and the environment's: not what the allocator did.
TOLD = ("outcome", "parameters", "trainable_parameters", "buffer_bytes", "allocated_peak_bytes", "reserved_peak_bytes", "phases",
        "saved_bytes", "forward_flops", "backward_flops")


def recorded():
    records = {}
    for path in sorted(HERE.parent.glob("*.records.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            for record in map(json.loads, file):
                if record.get("source") == "oracle":
                    records.setdefault(record["id"], record["measured"])
    return records


def cases_of(wanted, known):
    with open(HERE / "cases.jsonl") as file:
        cases = [json.loads(line) for line in file]
    return [case for case in cases if case["id"] in known and (not wanted or case["id"] in wanted)]


def make(memest, python, gpu, cases):
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "raw.jsonl"
        program = [python, HERE / "measure.py", HERE / "cases.jsonl", "-o", output, "--only", ",".join(case["id"] for case in cases)]
        command = [memest, "record", "--quiet", "--gpu", gpu, "--", *program]
        ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if not output.exists():
            raise SystemExit(f"nothing was measured: {ran.stderr[-2000:]}")
        return [json.loads(line) for line in output.read_text().splitlines()]


def differences(made, known):
    for key in TOLD:
        if key == "phases" and key in known:
            yield from (f"{key}.{name}: {made[key].get(name)}, not {value}" for name, value in known[key].items()
                        if made[key].get(name) != value)
        elif key in known and made.get(key) != known[key]:
            yield f"{key}: {made.get(key)}, not {known[key]}"


def main(memest, python, *wanted):
    known = recorded()
    groups = {}
    for case in cases_of(wanted, known):
        groups.setdefault(GPUS[case.get("null_device")], []).append(case)
    equal = different = 0
    for gpu, cases in groups.items():
        for raw in make(memest, python, gpu, cases):
            found = list(differences(measured(raw), known[raw["id"]])) if raw["status"] != "error" else [raw["message"]]
            print(f"{raw['id']}: {'equal' if not found else '; '.join(found[:3])}", flush=True)
            equal += not found
            different += bool(found)
    print(f"{equal} of {equal + different} records equal")
    return 1 if different or not equal else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
