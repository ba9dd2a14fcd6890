import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.Adam(model.parameters(), capturable=True)
x, y = torch.randn(64, 1024, device="cuda"), torch.randn(64, 1024, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad()
with torch.cuda.graph(graph):
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
for _ in range(3):
    x.copy_(torch.randn(64, 1024))
    graph.replay()
print(loss.item())
callable_graph = torch.cuda.make_graphed_callables(torch.nn.Linear(1024, 1024).cuda(), (torch.randn(8, 1024, device="cuda", requires_grad=True),))
callable_graph(torch.randn(8, 1024, device="cuda", requires_grad=True)).sum().backward()
