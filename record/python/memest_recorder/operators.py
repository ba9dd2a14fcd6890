"""Operators of PyTorch's execution trace (torch.profiler.ExecutionTraceObserver) as lines of a recording."""

import json
import re

DTYPES = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8", "c10::Float8_e5m2": "fp8", "c10::Float8_e4m3fnuz": "fp8", "c10::Float8_e5m2fnuz": "fp8",
    "signed char": "int8", "unsigned char": "uint8", "int": "int32", "long int": "int64", "long": "int64", "short int": "int16",
    "short": "int16", "bool": "bool", "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}
DECODER = json.JSONDecoder(strict=False)
NODE = re.compile(r'\n\s*(\{)\s*"id":')


def handle_of(line):
    """The operator that a line of the null device belongs to; 0 where it has none."""
    words = line.split(" ", 5)
    return int(words[4]) if words[1] in ("k", "g", "c", "m") else 0


class Operators:
    """Those of the `handles` that the trace at `path` has: a large model's has more than a process should hold at once."""

    def __init__(self, path, handles):
        self.nodes = {}
        self.told = {}
        self.kernels = {}  # by name, over all spans
        self.of_span = {}  # by the number that the null device gave in this one
        for node in nodes_of(path):
            attributes = {attribute["name"]: attribute["value"] for attribute in node.get("attrs", ())}
            if attributes.get("rf_id") in handles:
                self.nodes[attributes["rf_id"]] = (node, attributes)

    def told_in(self, line):
        """The line of the null device with the number of its operator, from 1 on by their appearance, and that of its kernel; before it
        the operator's own line where it is the first of it."""
        if line.startswith("w n "):
            return self.named(line)
        if line.startswith("w k "):
            words = line.split(" ")
            words[5] = str(self.of_span[words[5]])
            line = " ".join(words)
        handle = handle_of(line)
        if not handle:
            return [line]
        is_new = handle not in self.told
        number = self.told.setdefault(handle, len(self.told) + 1)
        words = line.split(" ", 5)
        words[4] = str(number)
        told = " ".join(words)
        if not is_new:
            return [told]
        node, attributes = self.nodes.get(handle, ({"name": "?"}, {}))
        return [f"w o {number} {line_of(node, attributes)}", told]


    def named(self, line):
        """Each span numbers its kernels anew."""
        _, _, number, name = line.split(" ", 3)
        is_new = name not in self.kernels
        self.of_span[number] = self.kernels.setdefault(name, len(self.kernels))
        return [f"w n {self.kernels[name]} {name}"] if is_new else []


def nodes_of(path):
    """The nodes of an execution trace, one after another, as far as it was written. PyTorch writes names as they are: a range with a
    quotation mark in its name is no JSON, and is left out."""
    try:
        with open(path, errors="replace") as file:
            text = file.read()
    except OSError:
        return
    node = NODE.search(text)
    while node is not None:
        try:
            told, at = DECODER.raw_decode(text, node.start(1))
            yield told
        except ValueError:
            at = node.end()
        node = NODE.search(text, at)


def line_of(node, attributes):
    words = [node["name"].replace(" ", "_")]
    words += values_of(node.get("inputs", {}))
    words.append(">")
    words += [word for word in values_of(node.get("outputs", {})) if "[" in word]
    if "global_rank_stride" in attributes:  # a message: where its ranks lie
        words.append(f"stride={attributes['global_rank_stride']}")
    return " ".join(words)


def values_of(side):
    words = []
    for value, shape, dtype, stride in zip(
        side.get("values", ()), side.get("shapes", ()), side.get("types", ()), side.get("strides") or [None] * len(side.get("values", ()))
    ):
        add(words, value, shape, dtype, stride)
    return words


def add(words, value, shape, dtype, stride):
    if dtype.startswith("Tensor("):
        words.append(tensor_of(value, shape, dtype[len("Tensor("):-1], stride))
    elif dtype.startswith("GenericList[Tensor"):
        inner = dtype[len("GenericList["):-1].split(",")
        strides = stride or [None] * len(inner)
        words.append(tensors_of([tensor_of(*one) for one in zip(value, shape, [name[len("Tensor("):-1] for name in inner], strides)]))
    elif dtype in ("Bool", "Int", "Double"):
        words.append(str(value))
    else:
        words.append("-")


def tensor_of(value, shape, dtype, stride):
    """A size that a tensor repeats, with a stride of 0, has a colon before it; "-" for a tensor of the host."""
    device = value[5] if isinstance(value, list) and len(value) > 5 else ""
    if not device.startswith("cuda"):
        return "-"
    strides = stride if stride and len(stride) == len(shape) else [1] * len(shape)
    sizes = ",".join(f":{size}" if step == 0 and size > 1 else str(size) for size, step in zip(shape, strides))
    return f"{DTYPES.get(dtype, 'uint8')}[{sizes}]"


def tensors_of(tensors):
    """A list of tensors: how many of each kind, as foreach operators have hundreds."""
    counts = {}
    for tensor in tensors:
        counts[tensor] = counts.get(tensor, 0) + 1
    return "{" + ";".join(f"{count}*{tensor}" for tensor, count in counts.items() if tensor != "-") + "}"
