"""A process per chip, without SPMD."""

import torch_xla


def train(index: int) -> None:
  print('never', index)


if __name__ == '__main__':
  torch_xla.launch(train)
