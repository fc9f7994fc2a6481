"""Names of tensors, given and found."""

import copy
import gc
import weakref

import pytest
import torch
from torch_xla.shardy import tensor_names
from torch_xla.shardy.tensor_names import name_tensors, names_in, names_of

# A child's, in which little has to be looked at as garbage is collected.
ENVIRONMENT = {}


class Net(torch.nn.Module):

  def __init__(self):
    super().__init__()
    self.blocks = torch.nn.ModuleList([torch.nn.Linear(2, 3)])
    self.norm = torch.nn.BatchNorm1d(3)


class Wrapper(torch.nn.Module):
  """A wrapper that holds its module as SpmdFullyShardedDataParallel does."""

  def __init__(self, module):
    super().__init__()
    self._orig_module = module


@pytest.fixture(autouse=True)
def fresh_fixture(monkeypatch):
  """The state of a process that has not looked yet."""
  gc.collect()  # The models of other tests.
  monkeypatch.setattr(tensor_names, '_living', tensor_names._Living())


def name_of(tensor: torch.Tensor) -> str:
  return names_of((tensor,))[0]


def _names(*modules, optimizers=()) -> list[str]:
  return [name for _, name in names_in(modules, optimizers)]


def test_parameters_and_buffers():
  net = Net()
  assert name_of(net.blocks[0].weight) == 'blocks.0.weight'
  assert name_of(net.norm.running_mean) == 'norm.running_mean'


def test_the_name_that_was_given_counts():
  net = Net()
  name_tensors({'mine': net.norm.bias})
  assert name_of(net.norm.bias) == 'mine'
  assert name_of(net.norm.weight) == 'norm.weight'


def test_what_is_in_no_module():
  assert name_of(torch.ones(2)) == ''
  assert name_of(torch.nn.Parameter(torch.ones(2))) == ''


def test_a_model_made_after_the_last_look():
  first = Net()
  assert name_of(first.norm.weight)
  tensor_names._living._took = 0.0  # As if it were some time ago.
  second = Wrapper(torch.nn.Linear(2, 2))
  assert name_of(second._orig_module.weight) == 'weight'


def test_wrappers_are_left_out():
  nested = Wrapper(torch.nn.Sequential(Wrapper(torch.nn.Linear(2, 2))))
  assert _names(*nested.modules()) == ['0.weight', '0.bias']
  compiled = torch.compile(torch.nn.Linear(2, 2))
  assert name_of(compiled._orig_mod.weight) == 'weight'


def test_models_with_names_in_common():
  net, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, bias=False)
  wrapped = Wrapper(torch.nn.Linear(2, 2))
  assert _names(net, wrapped, wrapped._orig_module) == [
      'weight of Linear', 'bias of Linear', 'weight of Wrapper',
      'bias of Wrapper'
  ]
  assert _names(net, other) == [
      'weight of one of 2 Linear', 'bias', 'weight of one of 2 Linear'
  ]


def test_a_copy_of_a_model():
  net = Net()
  teacher = copy.deepcopy(net)
  assert name_of(teacher.norm.bias) == 'norm.bias of one of 2 Net'


def test_tied_weights_have_the_first_name():
  net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
  net[1].weight = net[0].weight
  assert name_of(net[1].weight) == '0.weight'


def test_modules_in_a_circle():
  first, second = Wrapper(None), Wrapper(None)
  first.inner, second.inner = second, first
  first.weight = torch.nn.Parameter(torch.ones(2))
  assert 'weight' in name_of(first.weight)


def test_the_state_of_an_optimizer():
  net = torch.nn.Linear(2, 2)
  optimizer = torch.optim.Adam(net.parameters())
  net(torch.ones(1, 2)).sum().backward()
  optimizer.step()
  state = optimizer.state[net.weight]
  assert name_of(state['exp_avg']) == 'exp_avg of weight'
  assert name_of(state['exp_avg_sq']) == 'exp_avg_sq of weight'


def test_one_look_finds_all(monkeypatch):
  net, strange = Net(), [torch.nn.Parameter(torch.ones(1)) for _ in range(3)]
  looks = []
  look = tensor_names._Living.look
  monkeypatch.setattr(tensor_names._Living, 'look', lambda *a:
                      (looks.append(1), look(*a)))
  assert tensor_names.names_of([*net.parameters(), *strange
                               ]) == ('blocks.0.weight', 'blocks.0.bias',
                                      'norm.weight', 'norm.bias', '', '', '')
  for tensor in [*net.parameters(), *strange, torch.ones(1)]:
    name_of(tensor)
  assert len(looks) == 1


def test_a_name_keeps_nothing_alive():
  net = Net()
  assert name_of(net.norm.weight)
  alive = weakref.ref(net.norm.weight)
  del net
  gc.collect()
  assert alive() is None


def test_objects_that_lie_about_their_class():
  """A proxy's `__class__` may do anything, and is not asked."""

  class Liar:

    @property
    def __class__(self):
      raise AssertionError('asked')

  liar, net = [Liar()], Net()
  assert name_of(net.norm.weight) == 'norm.weight'
  del liar


def test_nothing_is_looked_at_when_nobody_asks(monkeypatch):
  net = torch.nn.Linear(2, 2)
  monkeypatch.setattr(gc, 'get_objects', lambda: pytest.fail('looked'))
  name_tensors({'w': net.weight})
  assert name_of(net.weight) == 'w'
  with pytest.raises(pytest.fail.Exception, match='looked'):
    name_of(net.bias)
