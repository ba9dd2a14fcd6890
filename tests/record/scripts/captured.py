import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(64, 1024, device="cuda"), torch.randn(64, 1024, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=False)
    torch.nn.functional.mse_loss(model(x), y).backward()


for _ in range(2):
    step()
    optimizer.step()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(2):
    graph.replay()
    optimizer.step()
