"""Trains one kind of model for a few steps, and tells what compiling took."""

import time

import norms_as_traced
import numpy as np
from sections import arguments, report
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.shardy import door


class _Experts(torch.nn.Module):
  """A layer of four experts; each token goes through its best one."""

  def __init__(self, width: int):
    super().__init__()
    self.gate = torch.nn.Linear(width, 4)
    self.up = torch.nn.Parameter(torch.randn(4, width, 2 * width) / width)
    self.down = torch.nn.Parameter(torch.randn(4, 2 * width, width) / width)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    weight, chosen = self.gate(x).softmax(-1).max(-1, keepdim=True)
    routed = F.one_hot(chosen.squeeze(-1), 4) * weight
    inner = F.gelu(torch.einsum('btw,ewi,bte->beti', x, self.up, routed))
    return torch.einsum('beti,eiw->btw', inner, self.down)


class _Block(torch.nn.Module):

  def __init__(self, width: int, experts: bool):
    super().__init__()
    self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in '12')
    self.qkv = torch.nn.Linear(width, 3 * width)
    self.out = torch.nn.Linear(width, width)
    self.inner = _Experts(width) if experts else torch.nn.Sequential(
        torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
        torch.nn.Linear(4 * width, width))

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    q, k, v = (
        t.unflatten(-1, (4, -1)).transpose(1, 2)
        for t in self.qkv(self.norms[0](x)).chunk(3, -1))
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + self.out(attended.transpose(1, 2).flatten(2))
    return x + self.inner(self.norms[1](x))


class _Transformer(torch.nn.Module):

  def __init__(self, width: int, words: int, experts: bool = False):
    super().__init__()
    self.words = torch.nn.Embedding(words, width)
    self.blocks = torch.nn.Sequential(*(_Block(width, experts) for _ in '12'))
    self.head = torch.nn.Sequential(
        torch.nn.LayerNorm(width), torch.nn.Linear(width, words))

  def forward(self, tokens: torch.Tensor) -> torch.Tensor:
    return self.head(self.blocks(self.words(tokens))).flatten(0, 1)

  def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, self.words.num_embeddings, (8, 16))
    return tokens, tokens.clone()


class _Convolutions(torch.nn.Sequential):

  def __init__(self, channels: int):
    layers = []
    for before, after in ((3, channels), (channels, 2 * channels),
                          (2 * channels, 2 * channels)):
      layers += (torch.nn.Conv2d(before, after, 3, padding=1),
                 torch.nn.BatchNorm2d(after), torch.nn.ReLU())
    super().__init__(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                     torch.nn.Linear(2 * channels, 8))

  def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 3, 16, 16), torch.randint(0, 8, (8,))


KINDS = {
    'transformer': lambda: _Transformer(64, 128),
    'experts': lambda: _Transformer(64, 128, experts=True),
    'convolutions': lambda: _Convolutions(16),
    'odd sizes': lambda: _Transformer(60, 101),
    'evaluation': lambda: _Transformer(64, 128),
}


def main() -> None:
  settings = arguments()
  norms_as_traced.register_if_asked()
  xr.use_spmd()
  torch.manual_seed(0)
  seconds = []

  def measure(compilation, rest):
    start = time.process_time()
    rest(compilation)
    seconds.append(time.process_time() - start)

  door.wrap(measure)
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  on_host = KINDS[settings['kind']]()
  model = on_host.to('xla')
  for place, parameter in enumerate(model.parameters()):
    if parameter.dim() > 1 and parameter.shape[0] >= 4:
      rest = (None,) * (parameter.dim() - 1)
      xs.mark_sharding(
          parameter, mesh, ('model', *rest), priority=(place % 2, *rest))
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
  torch_xla.sync(wait=True)

  def loss_of_batch() -> torch.Tensor:
    inputs, targets = (t.to('xla') for t in on_host.batch())
    for t in inputs, targets:
      xs.mark_sharding(t, mesh, ('data', *(None,) * (t.dim() - 1)))
    return F.cross_entropy(model(inputs), targets.flatten())

  losses = []
  for _ in range(3):
    optimizer.zero_grad()
    loss = loss_of_batch()
    loss.backward()
    optimizer.step()
    torch_xla.sync(wait=True)
    losses.append(loss.item())
    if settings['kind'] == 'evaluation':
      with torch.no_grad():
        loss = loss_of_batch()
        torch_xla.sync(wait=True)
        losses.append(loss.item())
  programs = torch_xla.shardy.programs()
  report(
      version=torch_xla.__version__,
      cpu=sum(seconds),
      programs=len(programs),
      attempts=sum(1 + len(p.given_up) for p in programs),
      again=[
          one.reason
          for p in programs
          for one in p.given_up
          if not one.reason.startswith('asked ')
      ],
      notes=[p.note for p in programs if p.note],
      losses=losses)


if __name__ == '__main__':
  main()
