import torch

model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(512, 8, batch_first=True), 4).cuda()
optimizer, scaler = torch.optim.Adam(model.parameters()), torch.amp.GradScaler()
for _ in range(4):
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.randn(8, 128, 512, device="cuda")).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print(scaler.get_scale(), len(optimizer.state))
assert optimizer.state, "every step was skipped"
