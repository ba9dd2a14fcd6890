"""A training under an execution trace of the program's own."""

import json
import os
import tempfile

import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace.json")
    observer = torch.profiler.ExecutionTraceObserver().register_callback(path)
    observer.start()
    for _ in range(3):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()
    observer.stop()
    observer.unregister_callback()
    with open(path) as file:
        assert any(node["name"] == "aten::addmm" for node in json.load(file)["nodes"])
