import torch

model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    batch = 4096 * (1 + 3 * (step > 0))
    x = torch.randn(batch, 4096, device="cuda")
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
