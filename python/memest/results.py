"""Answers with their types. A key of the JSON answer (docs/json.md) is an attribute of the same name; the classes below list those
that have a type, and any other key is there as well. A value that memest cannot give is None, and `why` has the reason."""

import json
import keyword
import typing
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Type, Union

from .errors import Diagnostic


class Record(Mapping[str, Any]):
    """An object of an answer, to be read by attribute or by key."""

    def __init__(self, data: Dict[str, Any]):
        self._data = data

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._data[key], _nested(type(self)).get(key, Record))

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        key = name[:-1] if keyword.iskeyword(name[:-1]) else name  # class_
        if name.startswith("__") or key == "_data" or key not in self._data:
            if key in getattr(type(self), "__annotations__", {}):
                return None  # a key that only some answers have
            raise AttributeError(f"this {type(self).__name__.lower()} has no '{name}'; it has {', '.join(self)}")
        return self[key]

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *(key + "_" if keyword.iskeyword(key) else key for key in self)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"

    def __getstate__(self) -> Dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)

    def why(self, key: str) -> Optional[str]:
        """Why the value of `key` is None; None where there is a value."""
        return self._data.get(key + "_unavailable")

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts, lists, numbers and texts, as `--format json` prints them."""
        return json.loads(json.dumps(self._data))


def _record_in(hint: Any) -> Optional[Type[Record]]:
    """The class of records that a type hint holds: Rank of List[Rank], Time of Optional[Time]."""
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint
    for part in typing.get_args(hint):
        found = _record_in(part)
        if found is not None:
            return found
    return None


_NESTED: Dict[type, Dict[str, Type[Record]]] = {}


def _nested(cls: type) -> Dict[str, Type[Record]]:
    if cls not in _NESTED:
        records = {key: _record_in(hint) for key, hint in typing.get_type_hints(cls).items()}
        _NESTED[cls] = {key: record for key, record in records.items() if record is not None}
    return _NESTED[cls]


def _wrapped(value: Any, record: Type[Record]) -> Any:
    if isinstance(value, dict):
        return record(value)
    if isinstance(value, list):
        return [_wrapped(item, record) for item in value]
    return value


class Answer(Record):
    """What a command answers. `exit_code` is the program's: 0 yes, 1 no, 4 not known."""

    format_version: int
    provenance: Record

    def __init__(self, data: Dict[str, Any], exit_code: int, diagnostics: Tuple[Diagnostic, ...]):
        super().__init__(data)
        self.exit_code = exit_code
        self.diagnostics = diagnostics  #: the warnings, and of `check` what is wrong with its files


class Term(Record):
    name: str
    group: str
    bytes: int
    formula: str
    source: str


class DataRank(Record):
    worst: int
    replayed: int
    count: int


class Moment(Record):
    name: str
    allocated_bytes: int


class Tensor(Record):
    tensor: str
    bytes: int


class Peak(Record):
    step: Optional[int]
    op: str
    alive: List[Tensor]


class Published(Record):
    runs: int
    publications: int
    held: float
    low: float
    high: float


class AnyRelease(Record):
    device_bytes: List[int]
    reserved_peak_bytes: Optional[List[int]]
    published: Published


class Node(Record):
    bytes: int
    ranks: int
    capacity_bytes: int
    provenance: str
    source: str
    verdict: str


class Host(Record):
    bytes: int
    pinned_bytes: int
    node: Node
    terms: List[Record]


class Rank(Record):
    name: str
    count: int
    data_rank: DataRank
    terms: List[Term]
    sum_of_terms_bytes: int
    allocated_peak_bytes: int
    closed_form_peak_bytes: Optional[int]
    reserved_peak_bytes: Optional[int]
    device_bytes: int
    interval_bytes: List[int]
    any_release: Optional[AnyRelease]
    saved_bytes: Optional[int]
    saved_bytes_per_layer: Union[List[int], int, None]
    phases: Optional[Record]
    host: Optional[Host]
    moments: List[Moment]
    peak: Peak


class Largest(Record):
    value: int
    bound: str


class Memory(Record):
    ranks: List[Rank]  #: the worst first
    capacity_bytes: int
    capacity_is_allocator_limit: bool
    verdict: str  #: fits, does-not-fit or too-close-to-call
    fixed_bytes: Optional[int]
    bytes_per_sequence: Optional[int]
    largest_micro_batch: Optional[int]
    largest_beams: Optional[Largest]
    largest_generate: Optional[Largest]


class Spec(Record):
    name: str
    model: str
    family: str
    zero: int
    gpu: str
    gpu_assumed: bool
    gpus: int


class Parameters(Record):
    total: int
    trainable: int
    active: int
    buffer_bytes: int
    matmul: int
    embedding: int
    tensors: int


class Conventions(Record):
    model: Optional[int]
    palm: Optional[int]
    megatron: Optional[int]


class Flops(Record):
    forward: Optional[int]
    backward: Optional[int]
    executed: Optional[int]
    computed: Optional[int]
    required: Optional[int]
    conventions: Conventions


class Bound(Record):
    op: str
    seconds: float
    by: str
    flops_per_byte: float
    provenance: str


class Time(Record):
    step_seconds: float
    interval_seconds: List[float]
    tokens_per_second_per_gpu: float
    mfu: float
    hfu: float
    ridge_flops_per_byte: float
    bound: List[Bound]
    by_class: List[Record]
    by_provenance: List[Record]
    provenance: str
    rule: str
    published: Optional[Published]
    pipeline: Optional[Record]
    data_loader: Optional[Record]


class ForwardTime(Record):
    seconds: float
    interval_seconds: List[float]
    kernel_seconds: float
    host_seconds: float
    launched_kernels: int
    by: str


class InferenceTime(Record):
    call_seconds: float
    interval_seconds: List[float]
    tokens_per_second: float
    prefill: Optional[ForwardTime]
    first_token: Optional[ForwardTime]
    last_token: Optional[ForwardTime]
    provenance: str
    rule: str
    host_source: str


class Cost(Record):
    per_hour: float
    per_step: float
    per_billion_tokens: float
    currency: str
    source: str


class Estimate(Answer):
    verdict: str  #: fits, does-not-fit, too-close-to-call or not-known
    spec: Spec
    parameters: Parameters
    memory: Optional[Memory]
    flops: Optional[Flops]
    time: Optional[Time]
    inference_time: Optional[InferenceTime]
    cost: Optional[Cost]


class Lever(Record):
    name: str
    saved_bytes: int
    fits: bool
    slower: Optional[float]


class Training(Record):
    tokens: float
    days: float
    days_interval: List[float]
    gpu_hours: float
    gpu_hours_interval: List[float]
    usd: Optional[float]
    in_time: Optional[str]


class Rival(Record):
    micro_batch: int
    gradient_accumulation: int
    recompute: str
    parallelism: Record
    slower: float


class Candidate(Record):
    gpu: str
    gpus: int
    micro_batch: int
    gradient_accumulation: int
    recompute: str
    zero: int
    parallelism: Record
    verdict: str
    device_bytes: int
    interval_bytes: List[int]
    capacity_bytes: int
    method: str
    time: Optional[Time]
    cost: Optional[Cost]
    training: Optional[Training]
    implementation: Optional[str]
    host_node: Optional[Node]
    rivals: List[Rival]
    reason: str
    lever: str
    levers: List[Lever]
    largest_terms: List[Record]


class Implementation(Record):
    name: str
    framework: str
    compile: str
    settings: List[str]
    asks: str
    plan: Optional[Candidate]


class Plan(Answer):
    known: bool
    best: Optional[List[Candidate]]  #: the best by the objective first
    refused: Optional[List[Candidate]]
    front: Optional[List[Candidate]]
    implementations: Optional[List[Implementation]]
    alternatives: Optional[List[Candidate]]
    order: Record
    candidates: int
    reasons: List[Record]


class Phase(Record):
    step: int
    phase: str
    peak_bytes: int
    end_bytes: int
    reserved_bytes: int


class TimelinePeak(Record):
    event: int
    step: int
    phase: str
    tensor: str
    allocated_bytes: int
    reserved_bytes: int
    by_holding: Record
    alive: List[Tensor]


class OutOfMemory(Record):
    event: int
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    free_bytes: int
    largest_free_bytes: int


class Timeline(Answer):
    rank: int
    data_rank: int
    events: int
    allocated_peak_bytes: int
    reserved_peak_bytes: int
    requested_peak_bytes: int
    retries: int
    phases: List[Phase]
    peak: TimelinePeak
    out_of_memory: Optional[OutOfMemory]
    in_place: Optional[List[Record]]
    forward_buffers: Optional[Record]
    arenas: Optional[List[Record]]
    against: Optional[Record]


class CheckedBudget(Record):
    budget: str
    status: str  #: within, too-close-to-call, over or unavailable
    unit: str
    limit: float
    value: Optional[float]
    interval: Optional[List[float]]
    largest: Optional[List[Record]]


class MovedFigure(Record):
    name: str
    unit: str
    locked: Optional[float]
    value: Optional[float]
    difference: float


class FileLock(Record):
    state: str  #: none, held, moved, not-locked or accepted
    moved: List[MovedFigure]
    terms: List[MovedFigure]
    changed_keys: List[Record]
    other_basis: List[str]


class CheckedFile(Record):
    file: str
    status: str  #: within, not-locked, moved, over, not-known or invalid
    has_budget: bool
    budgets: List[CheckedBudget]
    errors: List[str]
    lock: FileLock


class LockOfSpecs(Record):
    file: str
    written: bool
    gone: List[str]


class Check(Answer):
    summary: str
    totals: Record
    files: List[CheckedFile]
    passed_over: List[str]
    lock: Optional[LockOfSpecs]
