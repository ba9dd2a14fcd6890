"""A training under the program's own profiler and execution trace."""

import os
import tempfile

import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
    for _ in range(3):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()
assert any("addmm" in event.key for event in profiler.key_averages())
with tempfile.TemporaryDirectory() as folder:
    observer = torch.profiler.ExecutionTraceObserver().register_callback(os.path.join(folder, "trace.json"))
    observer.start()
    model(torch.randn(8, 64, device="cuda"))
    observer.stop()
    observer.unregister_callback()
    assert os.path.getsize(os.path.join(folder, "trace.json")) > 0
