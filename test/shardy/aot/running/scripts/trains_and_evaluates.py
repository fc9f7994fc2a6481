"""Epochs of training and of evaluation, with as many steps each."""

import io

import torch
import torch_xla
import torch_xla.core.xla_model as xm

model = torch.nn.Linear(64, 64).to('xla')
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
  for _ in range(4):
    optimizer.zero_grad()
    model(torch.ones(8, 64).to('xla')).square().mean().backward()
    optimizer.step()
    torch_xla.sync()
  for _ in range(4):
    with torch.no_grad():
      loss = model(torch.ones(8, 64).to('xla')).square().mean()
    torch_xla.sync()
# A copy in memory is none on disk.
copied = io.BytesIO()
torch.save(model.state_dict(), copied)
copied.seek(0)
assert torch.load(copied)['weight'].shape == (64, 64)
print(xm.get_memory_info(xm.xla_device())['bytes_limit'])
