"""What a neural network needs before a GPU is rented: memory to the byte, FLOPs, step time, money.

>>> import memest
>>> answer = memest.estimate("llama-3-8b", gpus=8)
>>> answer.verdict
'does-not-fit'

A spec is a path, the name of a preset, or a mapping with the keys of a spec; several merge from left to right. What stands in the
way of an answer is a MemestError, whose `diagnostics` say where and what to do.
"""

import json
import os
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _library
from .errors import BadInput, Bug, Diagnostic, EnvironmentFailed, MemestError, NotKnown, diagnostics_of, error_of
from .results import Answer, Check, Estimate, Plan, Record, Timeline

__all__ = [
    "Answer", "BadInput", "Bug", "Check", "Diagnostic", "EnvironmentFailed", "Estimate", "MemestError", "NotKnown", "Plan", "Record",
    "Timeline", "ask", "check", "estimate", "plan", "timeline",
]  # fmt: skip
__version__ = _library.version()

Spec = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Words = Union[str, int, Sequence[Union[str, int]]]
Overrides = Union[Mapping[str, Any], Sequence[str]]

_A = TypeVar("_A", bound=Answer)


def estimate(
    *specs: Spec, gpu: Optional[str] = None, gpus: Optional[int] = None, set: Overrides = (), free: Words = ()
) -> Estimate:
    """This configuration as written: memory, FLOPs, step time, money."""
    return _asked(Estimate, "estimate", specs, {"gpu": gpu, "gpus": gpus, "set": set, "free": free})


def plan(
    *specs: Spec,
    gpu: Words = (),
    gpus: Words = (),
    set: Overrides = (),
    free: Words = (),
    objective: Optional[str] = None,
    implementation: Words = (),
    tokens: Optional[str] = None,
    within: Optional[str] = None,
    front: bool = False,
    explain_choice: bool = False,
    threads: Optional[int] = None,
) -> Plan:
    """Which GPUs, how many and which settings: ranked, and for each refusal, why. `tokens="2T", within="30d"` as on the command line."""
    flags = {"gpu": gpu, "gpus": gpus, "set": set, "free": free, "objective": objective, "implementation": implementation}
    search = {"tokens": tokens, "within": within, "front": front, "explain_choice": explain_choice, "threads": threads}
    return _asked(Plan, "plan", specs, {**flags, **search})


def timeline(
    *specs: Spec,
    gpu: Optional[str] = None,
    gpus: Optional[int] = None,
    set: Overrides = (),
    free: Words = (),
    rank: Optional[int] = None,
    data_rank: Optional[int] = None,
    against: Optional[str] = None,
    reuse: bool = False,
    pack: Optional[str] = None,
    html: Optional[str] = None,
    trace: Optional[str] = None,
    snapshot: Optional[str] = None,
) -> Timeline:
    """Memory through the steps, event by event. `pack`, `html`, `trace` and `snapshot` name files, which are written."""
    flags = {"gpu": gpu, "gpus": gpus, "set": set, "free": free, "rank": rank, "data_rank": data_rank, "against": against}
    files = {"reuse": reuse, "pack": pack, "html": html, "trace": trace, "snapshot": snapshot}
    return _asked(Timeline, "timeline", specs, {**flags, **files})


def check(
    *specs: Spec, gpu: Optional[str] = None, gpus: Optional[int] = None, set: Overrides = (), free: Words = ()
) -> Check:
    """Whether each spec stays within its budget. A spec with mistakes is a file with the status `invalid`, and no exception."""
    return _asked(Check, "check", specs, {"gpu": gpu, "gpus": gpus, "set": set, "free": free})


def ask(command: str, *words: Spec, **flags: Any) -> Answer:
    """Any command of the program that has `--format json`: ask("fit", spec, memory="24GiB") is `memest fit SPEC --memory 24GiB`."""
    return _asked(Answer, command, words, flags)


def _asked(kind: Type[_A], command: str, specs: Sequence[Spec], flags: Mapping[str, Any]) -> _A:
    words, texts = _words_of_specs(specs)
    raw = _library.ask([command, *_words_of_flags(flags), "--format", "json", *words], texts)
    diagnostics = diagnostics_of(raw.diagnostics)
    if not raw.text:
        raise error_of(raw.exit_code, diagnostics)
    return kind(json.loads(raw.text), raw.exit_code, diagnostics)


def _words_of_specs(specs: Sequence[Spec]) -> Tuple[List[str], List[Tuple[str, str]]]:
    words: List[str] = []
    texts: List[Tuple[str, str]] = []
    for spec in specs:
        if isinstance(spec, Mapping):
            name = f"<spec{len(texts) + 1 if texts else ''}>.json"
            texts.append((name, json.dumps(spec, indent=2, ensure_ascii=False) + "\n"))
            words.append(name)
        elif spec == "-":
            raise ValueError("'-' is standard input, which belongs to the program: pass a mapping or a path")
        else:
            path = os.fspath(spec)
            words.append("./" + path if path.startswith("-") else path)  # else it would be a flag
    return words, texts


def _words_of_flags(flags: Mapping[str, Any]) -> List[str]:
    words: List[str] = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words += [flag] if value else []
        elif isinstance(value, Mapping):  # --set KEY=VALUE, its value in YAML, of which JSON is a part
            for key, of_key in value.items():
                words += [flag, f"{key}={of_key if isinstance(of_key, str) else json.dumps(of_key)}"]
        elif isinstance(value, (list, tuple)):
            for one in value:
                words += [flag, str(one)]
        elif value is not None:
            words += [flag, str(value)]
    return words
