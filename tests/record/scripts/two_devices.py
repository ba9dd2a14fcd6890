# One process, a layer on each of two devices.
import torch

first = torch.nn.Linear(1024, 1024, device="cuda:0")
second = torch.nn.Linear(1024, 1024, device="cuda:1")
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()])
for step in range(2):
    second(first(torch.ones(64, 1024, device="cuda:0")).to("cuda:1")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
