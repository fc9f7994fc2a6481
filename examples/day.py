"""A day of training: a small GPT-2, saved, resumed on another mesh, evaluated.

Each process trains up to --until, from the newest checkpoint in FOLDER if there
is one, and saves each step there. From the root of the checkout:

  python examples/day.py FOLDER --until 3
  python examples/day.py FOLDER --until 6 --mesh 4x2

The losses of the second process are those of a run that was never stopped, up
to the rounding of sums in another order. The model is made from a
configuration, so that nothing is downloaded. FSDPv2 shards it, activations are
computed again in the backward pass, and products run in bfloat16.
"""

import argparse
import functools
import os

# The runtime reads these when torch_xla is imported.
os.environ.setdefault('PJRT_DEVICE', 'CPU')
os.environ.setdefault('CPU_NUM_DEVICES', '8')
os.environ.setdefault('XLA_USE_SHARDY', '1')

import numpy as np
import torch
import torch.distributed as dist
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.spmd as xs
from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch_xla.experimental.distributed_checkpoint import (CheckpointManager,
                                                           prime_optimizer)
from torch_xla.experimental.spmd_fully_sharded_data_parallel import (
    SpmdFullyShardedDataParallel as FSDPv2)
import torch_xla.runtime as xr
from torch_xla.utils.utils import get_free_tcp_ports

try:
  import transformers
  from transformers.models.gpt2.modeling_gpt2 import GPT2Block
except ImportError as e:
  raise SystemExit('this example needs transformers, which torch_xla does not: '
                   'pip install transformers==4.57.1') from e

VOCABULARY, BATCH, LENGTH = 256, 8, 16


def batches(first: int, last: int):
  """Yields the batch of each step: {'input_ids', 'labels'}."""
  for step in range(first, last):
    generator = torch.Generator().manual_seed(step)
    # Each token follows from the one before it, so that there is something to
    # learn.
    start = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
    ids = (start + 7 * torch.arange(LENGTH)) % VOCABULARY
    yield {'input_ids': ids, 'labels': ids.clone()}


def make_model(mesh: xs.Mesh) -> FSDPv2:
  config = transformers.GPT2Config(
      n_layer=1,
      n_head=4,
      n_embd=64,
      vocab_size=VOCABULARY,
      n_positions=64,
      use_cache=False)
  model = transformers.GPT2LMHeadModel(config)
  model.gradient_checkpointing_enable()
  policy = functools.partial(
      transformer_auto_wrap_policy, transformer_layer_cls={GPT2Block})
  return FSDPv2(model, mesh=mesh, auto_wrap_policy=policy)


def loss_of(model: torch.nn.Module, batch: dict) -> torch.Tensor:
  with torch.autocast('xla', dtype=torch.bfloat16):
    return model(**batch).loss


def main() -> None:
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('folder', help='holds the checkpoints')
  parser.add_argument('--until', type=int, default=6, help='the last step')
  parser.add_argument('--mesh', default='2x4', help='data x fsdp')
  options = parser.parse_args()

  xr.use_spmd()
  torch.manual_seed(0)
  shape = tuple(map(int, options.mesh.split('x')))
  mesh = xs.Mesh(np.arange(shape[0] * shape[1]), shape, ('data', 'fsdp'))
  xs.set_global_mesh(mesh)
  dist.init_process_group(
      'gloo',
      init_method=f'tcp://localhost:{get_free_tcp_ports()[0]}',
      rank=0,
      world_size=1)

  model = make_model(mesh)
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
  # Preemption is noticed on a TPU alone.
  checkpoints = CheckpointManager(
      options.folder, save_interval=1, chkpt_on_preemption=False)
  first = 0
  if steps := checkpoints.all_steps():
    prime_optimizer(optimizer)
    state = state_of(model, optimizer)
    checkpoints.restore(max(steps), state)
    model.load_state_dict(state['model'])
    optimizer.load_state_dict(state['optimizer'])
    high, low = state['seed'].tolist()
    xm.set_rng_state(high << 32 | low)
    first = max(steps)
    print(f'resumed after step {first} on a mesh of {options.mesh}')

  sharding = xs.ShardingSpec(mesh, (('data', 'fsdp'), None))
  loader = pl.MpDeviceLoader(
      list(batches(first, options.until)),
      torch_xla.device(),
      input_sharding={
          'input_ids': sharding,
          'labels': sharding
      })
  model.train()
  for step, batch in enumerate(loader, first + 1):
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    print(f'step {step}: loss {loss.item():.4f}')
    # In the loop: where the loader ends it moves the seed.
    checkpoints.save(step, state_of(model, optimizer))

  model.eval()
  with torch.no_grad():
    held_out, = batches(10_000, 10_001)
    ids = held_out['input_ids'].to('xla')
    xs.mark_sharding(ids, mesh, (('data', 'fsdp'), None))
    loss = loss_of(model, {'input_ids': ids, 'labels': ids})
    print(f'evaluation: loss {loss.item():.4f}')
    prompt = ids[:1, :4]
    tokens = model.module.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=2,
        do_sample=False,
        pad_token_id=0)
    print(f'generated: {tokens[0].tolist()}')
  dist.destroy_process_group()


def state_of(model: torch.nn.Module,
             optimizer: torch.optim.Optimizer) -> dict[str, object]:
  """All that a resumed run needs; the seed decides what dropout drops."""
  seed = xm.get_rng_state()
  return {
      'model': model.state_dict(),
      'optimizer': optimizer.state_dict(),
      'seed': torch.tensor([seed >> 32, seed & 0xffffffff]),
  }


if __name__ == '__main__':
  main()
