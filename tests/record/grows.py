import torch

model = torch.nn.Linear(4096, 4096, device="cuda")
optimizer = torch.optim.SGD(model.parameters())
kept = []
for step in range(4):
    batch = torch.randn(8192 * (step + 1), 4096, device="cuda")
    kept.append(torch.relu(model(batch)))
    kept[-1].sum().backward()
    optimizer.step()
