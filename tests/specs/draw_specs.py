#!/usr/bin/env python3
"""Draws random specs from `memest schema` and asks every command about them.

Whatever a spec says, a command answers (exit code 0 or 1), says that it does not know (4) or refuses
in words (2): it neither crashes nor calls itself a bug, its JSON holds numbers that can be and has
the form that `memest schema COMMAND` says (where Python's jsonschema is installed), and it takes no
more than 10 s of processor and 1 GB. With --against a second build must print the same. A build with
sanitizers (--unlimited) has 60 s and all memory, and what it does not finish is counted.

    draw_specs.py MEMEST [--specs N] [--seed N] [--jobs N] [--against MEMEST] [--unlimited] [--keep FOLDER]
"""
import argparse
import functools
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    jsonschema = None

SECONDS = 10  # of processor, as docs/limits.md says
SANITIZED_SECONDS = 60  # address and undefined-behaviour sanitizers at -O1 are some 10 times slower
BYTES = 10**9
ANSWERS = (0, 1)
CODES = ANSWERS + (2, 4)

# Values that make a job more often than the bounds of a key do, and lie near what breaks.
USUAL = {
    "layers": [1, 2, 3, 4, 8, 12], "hidden_size": [64, 128, 256, 512, 4096], "heads": [1, 2, 4, 8],
    "kv_heads": [1, 2, 4], "head_dim": [16, 32, 64, 128], "ffn_size": [64, 256, 1024],
    "vocab_size": [1, 100, 1000, 50257], "seq_len": [1, 2, 16, 128, 500, 1024, 4096, 131072],
    "in": [1, 16, 64], "out": [1, 16, 64], "size": [16, 64], "rows": [1, 100],
    "micro_batch": [1, 2, 3, 8, 64], "global_batch": [1, 4, 8, 16, 48, 512],
    "gradient_accumulation": [1, 2, 3, 8, 32, 100], "steps": [1, 2, 3],
    "data": [1, 2, 3, 4, 8, 64], "tensor": [1, 2, 4, 8], "pipeline": [1, 2, 4], "context": [1, 2, 4],
    "expert": [1, 2, 4], "count": [1, 2, 4, 8, 16], "repeat": [0, 1, 2, 5, 100],
    "virtual_stages": [1, 2, 3], "replicate": [1, 2], "experts": [2, 4, 8], "top_k": [1, 2],
    "blocks": [0, 1, 2, 3, 5], "rank": [1, 4, 16], "gpus_per_node": [1, 4, 8],
}
# Keys that take a text of a form: their schema has a pattern or no more than a type.
TEXTS = {
    "gpu": ["h100-sxm-80gb", "h100", "a100-sxm-40gb", "t4", "rtx-4090", "mi250x", "b200-sxm-180gb", "no-such"],
    "price": ["2.49 USD/h", "0 USD/h"], "cost_per_billion_tokens": ["250 USD"],
    "step_time": ["1 s", "3 ms"], "flops": ["10 TFLOP", "10 EFLOP", "1 FLOP"], "margin": ["5 %", "0 %"],
    "torch": ["2.11", "2.6"], "transformers": ["5.17"], "bandwidth": ["400 Gbit/s", "50 GB/s"],
}
SIZES = ["1 B", "1 GiB", "80 GiB", "600 KiB", "4 TB", "0 B", "24 GB"]
MOST_NESTED = 4
PRESETS = ["gpt2", "llama-3-8b", "llama-3.2-1b", "mixtral-8x7b", "t5-small", "bert-base", "gemma-2-2b", "qwen3-30b-a3b",
           "deepseek-v2-lite", "gpt-oss-20b", "resnet-50"]


class Drawer:
    def __init__(self, schema, rng):
        self.schema, self.rng, self.depth = schema, rng, 0

    def value(self, rule, key=""):
        rng = self.rng
        if "$ref" in rule:
            rule = self.schema["$defs"][rule["$ref"].rsplit("/", 1)[1]]
        if "anyOf" in rule:
            likely = rng.random() < 0.5 and key == "model"
            return self.value(rule["anyOf"][0] if likely else rng.choice(rule["anyOf"]), key)
        if "enum" in rule:
            if "gpt2" in rule["enum"] and rng.random() < 0.9:
                return rng.choice(PRESETS)
            return rng.choice(rule["enum"])
        kind = rule.get("type", "object")
        if kind == "object":
            return self.table(rule)
        if kind == "array":
            return self.array(rule, key)
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "integer":
            return self.count(rule, key)
        if kind == "number":
            low, high = rule.get("minimum", 0), rule.get("maximum", 1)
            return rng.choice([low, high, min(high, max(low, 0.5)), rng.uniform(low, high)])
        return rng.choice(TEXTS.get(key, SIZES))

    def array(self, rule, key):
        """Blocks hold blocks: below MOST_NESTED there are none."""
        self.depth += 1
        most = self.rng.choice([0, 1, 1, 2, 3, 6]) if self.depth <= MOST_NESTED else 0
        items = [self.value(rule["items"], key) for _ in range(most)]
        if key == "blocks":  # layers that are named once
            items = sorted(set(items))
        self.depth -= 1
        return items

    def count(self, rule, key):
        low, high = rule.get("minimum", 0), rule.get("maximum", 10**9)
        if key in USUAL and self.rng.random() < 0.97:
            number = self.rng.choice(USUAL[key])
        elif self.rng.random() < 0.1:
            number = self.rng.choice([low, high])
        else:
            number = self.rng.choice([0, 1, 2, 3, 4, 8, 16, 64, 1000])
        return max(low, min(high, number))

    def table(self, rule):
        rules = rule.get("properties", {})
        if rule.get("maxProperties") == 1:
            keys = [self.rng.choice(list(rules))]
        else:
            required = set(rule.get("required", ()))
            share = self.rng.choice([0.0, 0.0, 0.05, 0.1, 0.3])
            keys = [key for key in rules if key in required or self.rng.random() < share]
        return {key: self.value(rules[key], key) for key in keys}

    def spec(self):
        """One that trains or infers, so that more than the readers is asked."""
        rng, rules = self.rng, self.schema["properties"]
        spec = {"model": self.value(rules["model"], "model")}
        forward = "inference" if rng.random() < 0.1 else "training"
        spec[forward] = self.table(self.resolved(rules[forward]))
        if forward == "training":
            spec[forward].setdefault("seq_len", rng.choice(USUAL["seq_len"]))
            if "gradient_accumulation" in spec[forward]:
                spec[forward].pop("global_batch", None)
        for section, share in (("parallelism", 0.4), ("hardware", 0.5), ("budget", 0.2), ("allocator", 0.1)):
            if section in rules and rng.random() < share:
                spec[section] = self.table(self.resolved(rules[section]))
        if "parallelism" in spec and "hardware" in spec:
            spec["hardware"].pop("count", None)
        return spec

    def resolved(self, rule):
        while "anyOf" in rule or "$ref" in rule:
            if "$ref" in rule:
                rule = self.schema["$defs"][rule["$ref"].rsplit("/", 1)[1]]
            else:
                rule = next(one for one in rule["anyOf"] if "properties" in one or "$ref" in one)
        return rule


def commands(rng, folder):
    """Of each command its flags; what people ask most is asked most."""
    form = rng.choice(["text", "json", "json", "csv", "markdown"])
    page = rng.choice([form, form, form, "html"])
    file = os.path.join(folder, "beside")
    plan = ["plan", "--gpu", "h100-sxm-80gb,rtx-4090", "--gpus", "1,4", "--format", page]
    return rng.choice([
        ["estimate", "--format", page], ["estimate", "--format", "json"], ["estimate", "-v"],
        ["estimate", "--gpus", rng.choice(["1", "3", "8", "64"]), "--format", form],
        ["explain", "--format", form],
        ["timeline", "--format", rng.choice(["text", "json", "markdown", "html"])],
        ["timeline", rng.choice(["--html", "--csv", "--snapshot", "--trace", "--pack"]), file, "--quiet"],
        ["fit", "--format", page], ["fit", "--memory", rng.choice(["1GiB", "24GiB"]), "--format", form],
        ["fit", "--plot", file],
        ["schedule", "--format", form], ["schedule", "--memory", "8GiB", "--actions", file],
        ["roofline", "--format", page], ["roofline", "--plot", file],
        ["check", "--format", rng.choice([page, "github", "junit"])],
        plan, plan + rng.choice([
            ["--front"], ["--explain-choice"], ["--tokens", "30B"], ["--tokens", "30B", "--within", "9d"],
            ["--objective", rng.choice(["time", "memory", "gpus"])],
            ["--largest", rng.choice(["micro-batch", "sequence", "model"])],
            ["--implementation", rng.choice(["torchtitan,megatron", "nanogpt", "textbook", "transformers"])],
            ["--free", rng.choice(["training.recompute", "training.micro_batch", "parallelism"])]]),
    ])


def strange(value, path=""):
    """The first number of an answer that cannot be, or nothing."""
    if isinstance(value, dict):
        low_high = value.get("interval_bytes")
        if low_high and "device_bytes" in value and not low_high[0] <= value["device_bytes"] <= low_high[1]:
            return path + "/interval_bytes does not hold device_bytes"
        # Replayed, the terms are what the allocator hands out and what stands on the device beside it.
        if value.get("reserved_peak_bytes") is not None and "sum_of_terms_bytes" in value:
            beside = value["device_bytes"] - value["reserved_peak_bytes"]
            if value["sum_of_terms_bytes"] != value["allocated_peak_bytes"] + beside:
                return path + "/terms do not add up to allocated_peak_bytes"
        for key, member in value.items():
            if key.endswith("bytes") and isinstance(member, int) and member < 0:
                return f"{path}/{key} is {member}"
            if found := strange(member, path + "/" + key):
                return found
    elif isinstance(value, list):
        for i, item in enumerate(value):
            if found := strange(item, f"{path}/{i}"):
                return found
    elif isinstance(value, float) and not math.isfinite(value):
        return f"{path} is {value}"
    return None


def limit(seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@functools.cache
def validator(memest, name):
    schema = json.loads(subprocess.run([memest, "schema", name], check=True, capture_output=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def misshapen(memest, command, answer):
    """Where an answer differs from its schema, or nothing."""
    if jsonschema is None:
        return None
    name = "refusal" if "diagnostics" in answer else command[0]
    error = next(validator(memest, name).iter_errors(answer), None)
    return error and f"{error.json_path} of {name}: {error.message[:200]}"


def run(memest, command, path, unlimited):
    words = [memest, command[0], path, *command[1:]]
    # A sanitizer's own code is 1, which is an answer.
    told = {"ASAN_OPTIONS": "exitcode=99", "UBSAN_OPTIONS": "exitcode=99:print_stacktrace=1"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(words, stdout=out, stderr=err, env=os.environ | told,
                                 preexec_fn=lambda: limit(SANITIZED_SECONDS if unlimited else SECONDS))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return child.returncode, out.read(), err.read(), usage.ru_maxrss * 1024


def fault(code, out, err, memory, command, unlimited):
    """What is wrong with an answer, or nothing."""
    if unlimited and code == -signal.SIGXCPU:
        return None
    if code not in CODES:
        return f"exit code {code}: " + err.decode(errors="replace")[:300]
    if not unlimited and memory > BYTES:
        return f"{memory} bytes of memory"
    if code not in ANSWERS and not err and not out:
        return f"exit code {code} without a word"
    if code in ANSWERS and "json" in command:
        return strange(json.loads(out))
    for word in (b"nan %", b" nan ", b" inf ", b"-inf"):
        if word in out:
            return f"the answer holds {word!r}"
    return None


def trial(args, schema, number):
    """What the number's spec is, what was asked about it, the exit code and what is wrong, if anything."""
    rng = random.Random(number)
    spec = Drawer(schema, rng).spec()
    with tempfile.TemporaryDirectory() as folder:
        command = commands(rng, folder)
        path = os.path.join(folder, "spec.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(spec, file)
        answer = run(args.memest, command, path, args.unlimited)
        found = fault(*answer, command, args.unlimited)
        if found is None and args.against:
            other = run(args.against, command, path, args.unlimited)
            found = "two builds differ" if answer[:3] != other[:3] else None
        if found is None and "json" in command and answer[1]:
            found = misshapen(args.memest, command, json.loads(answer[1]))
    return spec, command, answer[0], found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("memest")
    parser.add_argument("--specs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many specs are asked about at once")
    parser.add_argument("--against", help="a second build, which must print the same")
    parser.add_argument("--unlimited", action="store_true", help="for builds with sanitizers")
    parser.add_argument("--keep", help="a folder for the specs that break something")
    args = parser.parse_args()
    schema = json.loads(subprocess.run([args.memest, "schema"], check=True, capture_output=True).stdout)
    if jsonschema is None:
        print("the form of JSON answers is not checked: there is no jsonschema", file=sys.stderr)
    codes, faults = {}, 0
    numbers = range(args.seed, args.seed + args.specs)
    with multiprocessing.Pool(args.jobs) as pool:
        trials = pool.imap(functools.partial(trial, args, schema), numbers)
        for number, (spec, command, code, found) in zip(numbers, trials):
            codes[code] = codes.get(code, 0) + 1
            if found is None:
                continue
            faults += 1
            print(f"seed {number}: memest {' '.join(command)}: {found}\n  {json.dumps(spec)}")
            if args.keep:
                os.makedirs(args.keep, exist_ok=True)
                with open(os.path.join(args.keep, f"{number}.json"), "w", encoding="utf-8") as file:
                    json.dump(spec, file)
    unfinished = codes.pop(-signal.SIGXCPU, 0)
    told = ", ".join(f"{count} with exit code {code}" for code, count in sorted(codes.items()))
    print(f"{args.specs} specs, {faults} faults, {unfinished} not finished: {told}")
    # A generator whose specs are all refused would test the readers alone.
    answered = sum(codes.get(code, 0) for code in ANSWERS)
    return 1 if faults or answered * 10 < args.specs else 0


if __name__ == "__main__":
    sys.exit(main())
