"""The smallest programs of which there is something to explain."""

from torch_xla.shardy import explanation

T = 'tensor<8x8xf32>'
ADD = f'%0 = stablehlo.add %a, %b : {T}'
DOT = ('%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : '
       f'({T}, {T}) -> {T}')


def explained_of(body: str,
                 *said: str,
                 shape: str = '8x8',
                 other: str = '',
                 result: str = '8x8',
                 inner: str = '') -> explanation.Explanation:
  """A function of a and b, sharded as is said of them.

  Args:
    inner: another function.
  """
  arguments = ', '.join(
      f'%{name}: tensor<{own}xf32> {{sdy.sharding = #sdy.sharding<@mesh, '
      f'[{dims}]>}}'
      for name, own, dims in zip('ab', (shape, other or shape), said))
  text = f'''sdy.mesh @mesh = <["x"=2, "y"=4]>
    func.func @main({arguments}) -> tensor<{result}xf32> {{
      {body}
      return %0 : tensor<{result}xf32>
    }} {inner}'''
  return explanation.explain('m', text.encode(), {0: 'a', 1: 'b'})
