"""Makes records anew on the null device and holds them to those of tests/truth.

usage: remake.py MEMEST PYTHON [ID...]

PYTHON has PyTorch, transformers, accelerate and peft of the records' releases; megatron-core, torchtitan, torchtune and litgpt are installed
beside them, and their cases are left out, with a sentence, where that fails. Without IDs every case is made, which takes a quarter of an hour. Exit
code 1: a record differs; its first differences are printed.
"""

import gzip
import json
import os
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
# Of a framework's record: nobody counts them in its loop.
FRAMEWORKS_LEAVE_OUT = ("outcome", "parameters", "trainable_parameters", "buffer_bytes", "saved_bytes")
# Frameworks that PyTorch's tests do not need. Their requirements would bring another PyTorch, with NVIDIA's libraries.
FRAMEWORKS = ["megatron-core==0.16.1", "torchtitan==0.2.2", "torchdata==0.11.0", "triton==3.6.0", "torchtune==0.6.1", "torchao==0.13.0",
              "torchvision==0.26.0", "kagglehub", "blobfile", "litgpt==0.5.13", "lightning==2.6.6", "lightning-utilities",
              "torchmetrics", "bitsandbytes==0.50.2"]
THEIR_PACKAGES = ["datasets", "einops", "jsonargparse[signatures]", "omegaconf", "pillow", "sentencepiece", "tensorboard", "tiktoken", "tyro"]


def recorded():
    records = {}
    for path in sorted(HERE.parent.glob("*.records.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            for record in map(json.loads, file):
                if record.get("source") == "oracle" or " on a null device" in record.get("source", ""):
                    records.setdefault(record["id"], record["measured"])
    return records


def cases_of(file, wanted, known):
    with open(HERE / file) as lines:
        cases = [json.loads(line) for line in lines]
    return [case for case in cases if case["id"] in known and (not wanted or case["id"] in wanted)]


def by_gpu(cases):
    groups = {}
    for case in cases:
        groups.setdefault(GPUS[case.get("null_device")], []).append(case)
    return groups.items()


def make(memest, python, gpu, names, cases):
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "raw.jsonl"
        script, file = (HERE / name for name in names)
        program = [python, script, file, "-o", output, "--only", ",".join(case["id"] for case in cases)]
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


def install_frameworks(python):
    """Once; what fails is told, and the cases say then which package they lack."""
    done = pathlib.Path(python).parent.parent / "frameworks-installed"
    if done.exists():
        return
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([*pip, "--no-deps", *FRAMEWORKS], [*pip, *THEIR_PACKAGES]):
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode != 0:
            print(f"Megatron-core, torchtitan, torchtune and litgpt cannot be installed: {ran.stderr.strip().splitlines()[-1:]}", flush=True)
            return
    done.touch()


def install_flash_attn(memest, python):
    """Whether flash-attn is there, installed where it can be. Its compiled module is flash_attn_2_cuda.py beside this file. Its setup.py
    imports PyTorch, which loads on the null device alone; nothing is recorded of it."""
    there = [python, "-c", "import importlib.metadata as m; m.version('flash-attn')"]
    if subprocess.run(there, capture_output=True).returncode == 0:
        return True
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "setuptools", "wheel", "ninja", "packaging", "psutil", "einops"], capture_output=True)
    subprocess.run([memest, "record", "--quiet", "--", *pip, "--no-deps", "--no-build-isolation", "flash-attn==2.8.3"],
                   capture_output=True, env={**os.environ, "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"})
    return subprocess.run(there, capture_output=True).returncode == 0


def can_run(cases, memest, python, tally):
    """The cases whose packages are there; the others are told and counted."""
    packaged = [case for case in cases if case.get("attention") == "flash_attention_2"]
    if not packaged or install_flash_attn(memest, python):
        return cases
    for case in packaged:
        print(f"{case['id']}: left out, flash-attn is not installed", flush=True)
    tally.left_out += len(packaged)
    return [case for case in cases if case not in packaged]


class Tally:
    def __init__(self):
        self.equal = self.different = self.left_out = 0

    def add(self, name, found):
        print(f"{name}: {'equal' if not found else '; '.join(found[:3])}", flush=True)
        self.equal += not found
        self.different += bool(found)

    def end(self):
        left_out = f"; {self.left_out} left out, whose packages are not here" if self.left_out else ""
        print(f"{self.equal} of {self.equal + self.different} records equal{left_out}")
        return 1 if self.different or not self.equal else 0


def main(memest, python, *wanted):
    known = recorded()
    tally = Tally()
    for gpu, cases in by_gpu(can_run(cases_of("cases.jsonl", wanted, known), memest, python, tally)):
        for raw in make(memest, python, gpu, ("measure.py", "cases.jsonl"), cases):
            told = raw["status"] != "error"
            tally.add(raw["id"], list(differences(measured(raw), known[raw["id"]])) if told else [raw["message"]])
    cases = cases_of("frameworks.jsonl", wanted, known)
    if cases:
        install_frameworks(python)
    for gpu, of_gpu in by_gpu(cases):
        for raw in make(memest, python, gpu, ("frameworks.py", "frameworks.jsonl"), of_gpu):
            if "missing" in raw:
                print(f"{raw['id']}: left out, {raw['missing']} is not installed", flush=True)
                tally.left_out += 1
                continue
            made = {key: value for key, value in known[raw["id"]].items() if key not in FRAMEWORKS_LEAVE_OUT}
            tally.add(raw["id"], [raw["error"]] if "error" in raw else list(differences(raw, made)))
    return tally.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
