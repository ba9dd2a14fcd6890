"""Writes placement.jsonl.gz: in which order Module.to() places the tensors of the decoders in parameters.jsonl.

    pip install torch transformers==5.17.0
    zcat parameters.jsonl.gz | python make_placement.py | gzip -9n > placement.jsonl.gz

torch.nn.Module._apply walks a module's submodules in the order of their registration, then its own parameters, then its own
buffers. A line holds the name of a line of parameters.jsonl and `runs`: [repeat, tensors] pairs, layers that are alike in one
run. A tensor is its name without the layer index, its number of elements and, where it is a buffer, "buffer".
"""

import itertools
import json
import re
import sys

import transformers

from parameter_variants import DECODERS
from make_parameters import build, short_name


def walk(module, prefix, seen):
    for name, child in module.named_children():
        yield from walk(child, f"{prefix}{name}.", seen)
    for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield prefix + name, tensor, name in dict(module.named_buffers(recurse=False))


def layer_of(name):
    layer = re.match(r".*?\.(\d+)\.", name)
    return layer.group(1) if layer else None


def runs_of(model):
    runs = []
    for _, tensors in itertools.groupby(walk(model, "", set()), key=lambda row: layer_of(row[0])):
        texts = [f"{short_name(name)} {tensor.numel()}" + (" buffer" if buffer else "") for name, tensor, buffer in tensors]
        if runs and runs[-1][1] == texts:
            runs[-1][0] += 1
        else:
            runs.append([1, texts])
    return runs


def main():
    transformers.logging.set_verbosity_error()
    for line in sys.stdin:
        row = json.loads(line)
        if row["config"]["model_type"] in DECODERS and "architectures" not in row["config"]:
            print(json.dumps({"name": row["name"], "runs": runs_of(build(row["config"]))}, separators=(",", ":")))


if __name__ == "__main__":
    main()
