"""Each step has two optimizers, whose work is told together; one range has a name that the execution trace cannot write."""

import torch

models = [torch.nn.Linear(256, 256, bias=False).cuda() for _ in range(2)]
optimizers = [torch.optim.SGD(models[0].parameters(), lr=0.1), torch.optim.AdamW(models[1].parameters(), fused=True)]
for _ in range(2):
    with torch.profiler.record_function('a "quoted" range'):
        models[1](models[0](torch.randn(32, 256, device="cuda"))).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    for optimizer in optimizers:
        optimizer.zero_grad()
