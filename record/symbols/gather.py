"""Writes the lists of functions that need no answer, from the libraries that NVIDIA ships.

usage: gather.py RECORD_SOURCES OUTPUT_FOLDER LIBRARY...

LIBRARY is a shared library, of which the exported functions are listed. A name that RECORD_SOURCES answers by hand is left
out. What a name says decides: Create writes a handle, Get and the like ask, all others compute. An existing list keeps its names,
so that libraries of several releases can be given one after the other. The runtime and the driver are listed by hand.
"""

import pathlib
import re
import subprocess
import sys

# The list of a library by the beginning of its functions' names, the longest first, and its code of "not supported".
LISTS = [
    ("cublasLt", "cublasLt", 15), ("cublas", "cublas", 15), ("cudnn", "cudnn", 3000), ("cufft", "cufft", 16),
    ("cupti", "cupti", 15), ("curand", "curand", 204), ("cusolver", "cusolver", 9), ("cusparseLt", "cusparseLt", 10),
    ("cusparse", "cusparse", 10), ("nccl", "nccl", 5),
]
# What answers on the host: sizes, counts, handles that are not the first argument.
ASKS = re.compile(r"Get(?!r[fis])|_get|[Qq]uery|[bB]ufferSize|Estimat|CreateFrom|Import|Export|Heuristic|Ipc|(?<!_)[nN]nz|cufft(Xt)?(Make)?Plan")


def exported(path):
    listing = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {row[-1].split("@")[0] for row in rows if len(row) == 3 and row[1] in "TWi"}


def row_of(name, code):
    if name.startswith("cupti"):
        return f"REFUSES({name}, {code})"
    if ASKS.search(name):
        return f"REFUSES({name}, {code})"
    if name.startswith("nccl") and "Create" in name:  # their handles are not the first arguments
        return f"REFUSES({name}, {code})"
    if re.search("[Cc]reate", name):
        return f"CREATES({name})"
    return f"RETURNS({name})" if name.startswith("nccl") else f"COMPUTES({name})"


def list_of(name):
    return next(((file, code) for prefix, file, code in LISTS if re.match(rf"{prefix}[A-Z_]", name)), None)


def main(sources, folder, *libraries):
    text = "".join(file.read_text() for file in pathlib.Path(sources).glob("libraries/*.cpp"))
    answered = set(re.findall(r"MEMEST_CALL[^;(]*?\b(\w+)\(", text))
    folder = pathlib.Path(folder)
    rows = {file: set() for _, file, _ in LISTS}
    for file in rows:
        path = folder / f"{file}.inc"
        if path.exists():
            rows[file] |= {line for line in path.read_text().splitlines() if re.sub(r"^\w+\((\w+).*", r"\1", line) not in answered}
    for library in libraries:
        for name in exported(library) - answered:
            if found := list_of(name):
                rows[found[0]].add(row_of(name, found[1]))
    for file, lines in rows.items():
        (folder / f"{file}.inc").write_text("".join(line + "\n" for line in sorted(lines, key=lambda line: line.split("(")[1])))
        print(f"{file}: {len(lines)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
