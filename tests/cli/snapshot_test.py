"""Holds a memory snapshot to itself and to the table of the same events: python3 snapshot_test.py SNAPSHOT CSV."""

import csv
import pickle
import sys

with open(sys.argv[1], "rb") as file:
    snapshot = pickle.load(file)
with open(sys.argv[2], newline="") as file:
    rows = list(csv.DictReader(file))

[trace] = snapshot["device_traces"]
alive, segments, peak, requested = {}, {}, 0, 0
for entry in trace:
    action, address, size = entry["action"], entry["addr"], entry["size"]
    assert entry["frames"], entry
    for frame in entry["frames"]:
        assert set(frame) == {"name", "filename", "line"}, frame
    if action == "alloc":
        assert address not in alive
        assert any(begin <= address and address + size <= begin + length for begin, length in segments.items())
        alive[address] = size
        requested += size
        peak = max(peak, requested)
    elif action == "free_completed":
        requested -= alive.pop(address)
    elif action == "segment_alloc":
        segments[address] = size
    elif action == "segment_free":
        del segments[address]
    else:
        assert action == "free_requested", action

requests = [entry for entry in trace if entry["action"] in ("alloc", "free_completed")]
assert len(requests) == len(rows)
for entry, row in zip(requests, rows):
    assert (entry["action"] == "alloc") == (row["kind"] == "allocate")
    assert entry["size"] == int(row["bytes"]) and entry["time_us"] == int(row["event"])
    assert entry["frames"][0]["name"] == row["tensor"]
    assert entry["stream"] == int(row["stream"])

ends = {segment["address"]: segment for segment in snapshot["segments"]}
assert {address: segment["total_size"] for address, segment in ends.items()} == segments
assert sum(segments.values()) == int(rows[-1]["reserved_bytes"])
assert sum(segment["allocated_size"] for segment in ends.values()) == int(rows[-1]["allocated_bytes"])
at_end = {}
for segment in ends.values():
    address = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == address
        address += block["size"]
        if block["state"] == "active_allocated":
            at_end[block["address"]] = block["requested_size"]
            assert block["frames"]
    assert address == segment["address"] + segment["total_size"]
assert at_end == alive
print("peak of what is requested:", peak)
