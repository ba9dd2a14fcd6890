import torch

layers = [torch.nn.Linear(1024, 1024, bias=False) for _ in range(8)]
model = torch.nn.Sequential(*layers).cuda()
x = torch.randn(32, 1024, device="cuda")
makers = [
    lambda p: torch.optim.AdamW(p, foreach=True), lambda p: torch.optim.AdamW(p, fused=True), lambda p: torch.optim.AdamW(p, foreach=False, amsgrad=True),
    lambda p: torch.optim.Adafactor(p), lambda p: torch.optim.Muon(p), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: torch.optim.RMSprop(p, centered=True), lambda p: torch.optim.Adagrad(p), lambda p: torch.optim.NAdam(p), lambda p: torch.optim.RAdam(p),
    lambda p: torch.optim.Adamax(p), lambda p: torch.optim.ASGD(p), lambda p: torch.optim.Rprop(p), lambda p: torch.optim.Adadelta(p),
]
for make in makers:
    optimizer = make(model.parameters())
    for _ in range(2):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
