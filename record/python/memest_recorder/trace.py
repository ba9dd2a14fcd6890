"""Writes PyTorch's history of allocations as memest's allocator trace (docs/commands/replay.md has the format)."""

from bisect import bisect

from memest_recorder.places import place_of

SEGMENTS = {"segment_alloc": "S", "segment_free": "s", "segment_map": "M", "segment_unmap": "U"}


class Mark:
    """A moment of the program, known by what the allocator had counted until then: lines to write there."""

    def __init__(self, counts, lines):
        self.counts = counts
        self.lines = lines


class Trace:
    """Appends to the file at `path`. Addresses become the numbers of allocations, streams and places are numbered as they come; a
    pool of its own, as a CUDA graph has one, is another stream, because neither lends to the other."""

    def __init__(self, path, head):
        self.file = open(path, "w", buffering=1 << 20)
        self.write(["# allocator trace 1", *head])
        self.file.flush()  # a process may be ended before its first step
        self.live = {}
        self.awaited = None  # a requested free, until it is known whether the memory is free at once
        self.allocations = 0
        self.streams = {}
        self.own_pools = []  # of each segment that is of one its address, its end, the pool, and the entry that made it, by address
        self.entry = 0  # of the history that is written
        self.places = {}
        self.place = None
        self.counts = [0, 0, 0, 0, 0]  # allocations, frees, segments obtained, segments returned, requests that failed

    def write(self, lines):
        self.file.write("".join(line + "\n" for line in lines))

    def note_pools(self, segments, history):
        """Segments of one device as PyTorch has them behind the history. One that is gone by then counts as its stream's own."""
        own = [segment for segment in segments if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)]
        made = {entry["addr"]: at for at, entry in enumerate(history) if entry["action"] == "segment_alloc"} if own else {}
        self.own_pools = sorted((one["address"], one["address"] + one["total_size"], tuple(one["segment_pool_id"]), made.get(one["address"], 0))
                                for one in own)

    def add(self, history, marks, empties):
        """Writes the entries of a history, and each mark where its counts are reached. `empties`: no request failed meanwhile, so
        that segments which go were returned by emptyCache, also where C++ called it (cudnn.benchmark)."""
        emptied = False
        marks = iter(marks)
        mark = next(marks, None)
        for self.entry, entry in enumerate(history):
            while mark is not None and not self.completes(entry) and all(had <= now for had, now in zip(mark.counts, self.counts)):
                self.flush_free()
                self.write(mark.lines)
                emptied = emptied or "e" in mark.lines
                mark = next(marks, None)
            returned = entry["action"] in ("segment_free", "segment_unmap")
            if empties and returned and not emptied:
                self.flush_free()
                self.write(["e"])
            emptied = returned or (emptied and entry["action"] == "free_completed")
            self.add_entry(entry)
        self.flush_free()
        while mark is not None:
            self.write(mark.lines)
            mark = next(marks, None)
        self.file.flush()

    def add_entry(self, entry):
        action = entry["action"]
        address = entry.get("addr")
        if not self.completes(entry):
            self.flush_free()
        if action == "alloc":
            self.counts[0] += 1
            self.set_place(entry)
            self.live[address] = self.allocations
            self.write([f"a {self.allocations} {entry['size']} {self.stream_of(entry)}"])
            self.allocations += 1
        elif action == "free_requested":
            self.counts[1] += 1
            self.awaited = address
        elif action == "free_completed":
            self.awaited = None
            if address in self.live:
                self.write([f"f {self.live.pop(address)}"])
        elif action == "oom":
            self.counts[4] += 1
            self.set_place(entry)
            self.write([f"o {entry['size']} {self.stream_of(entry)}"])
        elif action in SEGMENTS:
            self.counts[2] += action == "segment_alloc"
            self.counts[3] += action == "segment_free"
            self.write([f"{SEGMENTS[action]} {address:x} {entry['size']} {self.stream_of(entry)}"])

    def completes(self, entry):
        """Whether it says that the memory of the free before it is free at once."""
        return self.awaited is not None and entry["action"] == "free_completed" and entry["addr"] == self.awaited

    def flush_free(self):
        """The memory of a free that another stream waits for comes back later."""
        if self.awaited in self.live:
            self.write([f"q {self.live[self.awaited]}"])
        self.awaited = None

    def stream_of(self, entry):
        return self.streams.setdefault((entry.get("stream", 0), self.pool_of(entry.get("addr"))), len(self.streams))

    def pool_of(self, address):
        if not self.own_pools or address is None:
            return None
        at = bisect(self.own_pools, address, key=lambda segment: segment[0])
        _, end, pool, made = self.own_pools[at - 1]
        return pool if at > 0 and address < end and self.entry >= made else None

    def set_place(self, entry):
        frames = [(frame["filename"], frame["line"], frame["name"]) for frame in entry.get("frames", ())]
        text = place_of(frames)
        if text not in self.places:
            self.places[text] = len(self.places)
            self.write([f"p {self.places[text]} {text}".rstrip()])
        if text != self.place:
            self.place = text
            self.write([f"@ {self.places[text]}"])

    def close(self, lines):
        self.write(lines)
        self.file.close()
