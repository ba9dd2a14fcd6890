"""A mask selects rows, which shapes what follows: of a few, counted in one kernel, and of many, counted in blocks; and on the host."""

import torch

for rows in (64, 300_000):
    mask = torch.ones(rows, dtype=torch.bool, device="cuda")
    kept = torch.randn(rows, 4, device="cuda")[mask]
    print("kept", rows, kept.shape[0], mask.nonzero().shape[0])
kept = torch.arange(64)[torch.ones(64, dtype=torch.int, device="cuda").bool().cpu()]
print("on the host", kept.shape[0])
