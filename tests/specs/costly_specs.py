#!/usr/bin/env python3
"""Specs that cost more than their size says are held to docs/limits.md: 10 s of processor, 1 GB.

    costly_specs.py MEMEST
"""
import json
import os
import sys
import tempfile

import draw_specs

PAGE_BYTES = 1_500_000  # of a run that ends in its first step, with the 1.04 MB of the charts' library


def layers(count):
    """A list of so many layers, all of them different."""
    rows = [{"linear": {"in": 1 + i, "out": 2 + i}} for i in range(count)]
    return {"model": {"layers": rows}, "training": {"seq_len": 16, "micro_batch": 1, "optimizer": "adamw"}}


TINY_SEQUENCES = {"model": "gemma-2-2b", "training": {"seq_len": 2}, "hardware": {"count": 2}}
SMALL_TABLE = {"model": {"layers": 12, "hidden_size": 4096, "heads": 8, "vocab_size": 100}, "training": {"seq_len": 128}}
TOO_LARGE = {"model": "llama-3-8b", "training": {"seq_len": 8192}, "hardware": {"gpu": "h100-sxm-80gb"}}
TWO_TYPES = ["--gpu", "h100-sxm-80gb,rtx-4090"]

# Spec, command, exit code.
CASES = {
    "micro-batches of petabytes are not written down": (TINY_SEQUENCES, ["estimate"], 0),
    "the most layers that may all differ": (layers(700), ["estimate"], 0),
    "more are refused": (layers(8000), ["estimate"], 2),
    "a plan of layers that all differ": (layers(250), ["plan", "--gpus", "1", *TWO_TYPES], 0),
    "the largest of many micro-batches": (SMALL_TABLE, ["plan", "--largest", "micro-batch", "--gpus", "1,4", *TWO_TYPES], 0),
    "a page ends where the run does": (TOO_LARGE, ["timeline", "--html", "PAGE"], 1),
}


def main():
    memest, faults = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as folder:
        path, page = os.path.join(folder, "spec.json"), os.path.join(folder, "page.html")
        for name, (spec, command, expected) in CASES.items():
            with open(path, "w", encoding="utf-8") as file:
                json.dump(spec, file)
            command = [page if word == "PAGE" else word for word in command]
            answer = draw_specs.run(memest, command, path, False)
            found = draw_specs.fault(*answer, command, False)
            if found is None and answer[0] != expected:
                found = f"exit code {answer[0]}, not {expected}: " + answer[2].decode(errors="replace")[:300]
            if found is None and page in command and os.path.getsize(page) > PAGE_BYTES:
                found = f"a page of {os.path.getsize(page)} bytes"
            if found:
                faults += 1
                print(f"{name}: memest {' '.join(command)}: {found}")
    print(f"{len(CASES)} specs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
