import torch

torch.backends.cudnn.benchmark = True
model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.BatchNorm2d(64), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for size in (64, 96, 64):
    model(torch.randn(8, 3, size, size, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
