"""Trains a small GPT-2 or Llama of transformers under a policy in TOML.

Audited, from the root of the checkout:

  torch-xla-shardy audit examples/transformers_policy.py gpt2

The models are made from configurations, so that nothing is downloaded.
"""

import argparse
import os

# The runtime reads these when torch_xla is imported.
os.environ.setdefault('PJRT_DEVICE', 'CPU')
os.environ.setdefault('CPU_NUM_DEVICES', '8')
os.environ.setdefault('XLA_USE_SHARDY', '1')

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.spmd.policy import ShardingPolicy
import torch_xla.runtime as xr

try:
  import transformers
except ImportError as e:
  raise SystemExit('this example needs transformers, which torch_xla does not: '
                   'pip install transformers') from e

VOCABULARY, BATCH, LENGTH = 512, 8, 32


def make(name: str) -> torch.nn.Module:
  """A model of two layers; word embeddings and head are two weights."""
  if name == 'gpt2':
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_layer=2,
            n_head=4,
            n_embd=64,
            vocab_size=VOCABULARY,
            tie_word_embeddings=False))
  return transformers.LlamaForCausalLM(
      transformers.LlamaConfig(
          num_hidden_layers=2,
          num_attention_heads=4,
          num_key_value_heads=4,
          hidden_size=64,
          intermediate_size=128,
          vocab_size=VOCABULARY,
          tie_word_embeddings=False))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('model', choices=('gpt2', 'llama'))
  parser.add_argument('--steps', type=int, default=2)
  options = parser.parse_args()
  xr.use_spmd()
  mesh = xs.Mesh(np.arange(8), (2, 4), ('data', 'model'))
  torch.manual_seed(0)
  model = make(options.model).to('xla')
  folder = os.path.dirname(os.path.abspath(__file__))
  policy = ShardingPolicy.load(os.path.join(folder, f'{options.model}.toml'))
  policy.apply(model, mesh)
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
  for step in range(options.steps):
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH)).to('xla')
    xs.mark_sharding(tokens, mesh, ('data', None))
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
    print(f'step {step}: loss {loss.item():.4f}')


if __name__ == '__main__':
  main()
