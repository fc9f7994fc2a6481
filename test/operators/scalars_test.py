"""Operators with a number that differs, each in a graph of its own.

A graph whose hash lacks a number runs the program of the graph before. Each is
compared with a CPU, forward and gradient, lazily and compiled.
"""

import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

ENVIRONMENT = {'PJRT_DEVICE': 'CPU'}
# Of a matrix t, its data d, indices i, a number n and the device.
_EXPRESSIONS = '''
F.celu(t, float(n)) ; F.elu(t, float(n)) ; F.hardshrink(t, n / 2)
F.softshrink(t, n / 2) ; F.threshold(t, n / 2, 9.0) ; F.threshold(t, 0.5, n)
F.leaky_relu(t, n / 9) ; F.hardtanh(t, -n, n) ; F.relu6(t * n) ; t.clamp(-n, n)
t.clamp(min=n / 2) ; t.clip(max=n / 2) ; t ** n ; n ** t ; t.abs() ** (n / 2)
torch.float_power(t, n) ; t.add(t, alpha=n) ; t.sub(t + 1, alpha=n)
torch.rsub(t, t * 2, alpha=n) ; t + n ; t * n ; torch.add(t, 2, alpha=n)
torch.addmm(t, t, t, beta=n, alpha=3 - n)
torch.addmv(t[0], t, t[1], beta=n, alpha=3 - n)
torch.baddbmm(t[None], t[None], t[None], beta=n, alpha=3 - n)
torch.addbmm(t, t[None], t[None], beta=n, alpha=3 - n)
torch.addr(t, t[0], t[1], beta=n, alpha=3 - n) ; torch.addcmul(t, t, t, value=n)
torch.addcdiv(t, t, t + 9, value=n) ; t.std(0, correction=n)
t.var(1, correction=n) ; t.var(correction=n)
sum(torch.var_mean(t, 0, correction=n))
sum(torch.std_mean(t, 0, correction=n))
F.interpolate(t[None, None], scale_factor=n + 0.5)
F.interpolate(t[None, None], size=(6, 6), mode='bilinear', align_corners=n > 1)
F.interpolate(t[None, None], scale_factor=(1.6, 1.5 + n / 50), mode='bilinear')
F.interpolate(t[None, None], scale_factor=1.5 + n / 50)
F.interpolate(t[None, None], size=(6, 6), mode='bicubic', align_corners=n > 1)
F.interpolate(t[None, None], size=(4 + n, 6), mode='nearest-exact')
t.cumsum(n - 1) ; t.cumprod(n - 1) ; t.cummax(n - 1)[0] ; t.logcumsumexp(n - 1)
t.roll(n) ; t.roll(1, n - 1) ; t.flip(n - 1) ; t.rot90(n)
F.pixel_shuffle(t.reshape(16, 1, 1), 2 * n) ; F.pixel_unshuffle(t[None], 2 * n)
F.channel_shuffle(t.reshape(1, 4, 2, 2), 2 * n)
F.group_norm(t[None].transpose(1, 2) * 1, 2, eps=n)
F.group_norm(t[None], 2 * n) ; F.layer_norm(t, (4,), eps=n)
F.rms_norm(t, (4,), eps=n)
F.batch_norm(t, t[0].detach() * 0, t[0].detach() * 0 + 1, training=True, eps=n)
F.instance_norm(t[None], eps=n) ; F.local_response_norm(t[None], 2, beta=n, k=n)
F.normalize(t, p=n + 1) ; F.normalize(t * 0.001, eps=n)
torch.logit(t / 9 + 0.5, eps=n / 10) ; torch.nan_to_num(t.log(), nan=n)
torch.nan_to_num(1 / (t * 0), posinf=n, neginf=-n, nan=n)
F.huber_loss(t, d * 2, delta=n / 2) ; F.smooth_l1_loss(t, d * 2, beta=n / 2)
F.smooth_l1_loss(t, d * 2 + 1, beta=n - 1)
F.mse_loss(t, d * 2, reduction=('sum', 'mean')[n - 1])
F.binary_cross_entropy(t.sigmoid(), d.sigmoid(), weight=d * 0 + n)
F.binary_cross_entropy_with_logits(t, d.sigmoid(), pos_weight=d[0] * 0 + n)
F.cross_entropy(t, i, label_smoothing=n / 10)
F.cross_entropy(t, i, ignore_index=n) ; F.nll_loss(t, i, ignore_index=n)
F.nll_loss(t.reshape(2, 2, 2, 2), i.view(1, 2, 2).repeat(2, 1, 1) % 2, ignore_index=n - 1)
F.embedding(i, t, padding_idx=n)
F.embedding_bag(i[None], t, mode=('sum', 'mean')[n - 1])
F.kl_div(t.log_softmax(0), d.log_softmax(0), log_target=n > 1)
F.triplet_margin_loss(t, t * 2, t + 1, margin=n)
F.margin_ranking_loss(t, t * 2, d.sign(), margin=n)
F.multi_margin_loss(t, i, margin=n + 0.1, p=n)
F.cosine_embedding_loss(t, t + 1, i * 0 - 1, margin=n / 4)
F.hinge_embedding_loss(t, d.sign(), margin=n)
F.soft_margin_loss(t * n, d.sign())
F.poisson_nll_loss(t, d.abs(), log_input=False, eps=n + 5)
F.gaussian_nll_loss(t, d * 2, d.abs(), eps=n) ; t.quantile(n / 3, dim=0)
t.quantile(0.3, dim=0, interpolation=('lower', 'higher')[n - 1])
t.nanquantile(n / 3) ; torch.histc(d, 4, -n, n)
torch.bincount(i, minlength=4 * n) ; torch.bucketize(d, d[0], right=n > 1)
torch.searchsorted(d, d, right=n > 1)
torch.searchsorted(d, d, side=('left', 'right')[n - 1]) ; t.softmax(n - 1)
t.log_softmax(n - 1) ; t.logsumexp(n - 1) ; F.softmin(t, n - 1)
F.glu(t, n - 1) ; F.softplus(t, beta=n) ; F.softplus(t, threshold=n / 2)
F.mish(t * n) ; F.gelu(t, approximate=('none', 'tanh')[n - 1])
F.rrelu(t, n / 9, n / 9) ; F.prelu(t, t[0, :1].detach() * 0 + n / 4)
torch.logaddexp(t, t * n) ; t.norm(n + 1) ; t.norm(dim=n - 1)
torch.linalg.vector_norm(t, n + 1, dim=0)
torch.linalg.matrix_norm(t, ('fro', 1)[n - 1]) ; t.renorm(2, 0, n)
torch.dist(t, t * 2, n) ; torch.cdist(t, t + 1, p=n) ; F.pdist(t, p=n)
F.pairwise_distance(t, t * 2, p=n) ; F.cosine_similarity(t, t + 1, dim=n - 1)
t.sort(n - 1)[0] ; t.sort(descending=n > 1)[0] ; t.topk(n)[0]
t.topk(2, largest=n > 1)[0] ; t.kthvalue(n)[0] ; t.argmax(n - 1)
t.argmin(0, keepdim=n > 1) ; t.median(n - 1)[0] ; t.mode(n - 1)[0]
t.sum(n - 1) ; t.mean(n - 1) ; t.prod(n - 1) ; t.amax(n - 1)
(t > 1).any(n - 1) ; (t > 1).all(n - 1) ; t.max(n - 1)[0] ; t.tril(n)
t.triu(n) ; t.diag(n) ; t.diagonal(n) ; torch.diag_embed(t[0], n)
torch.trapezoid(t, dx=n) ; t.gather(n - 1, i[None])
t.scatter(n - 1, i[None], t[:1] * 2) ; t.scatter(0, i[None], n)
t.scatter_add(n - 1, i[None], t[:1])
t.scatter_reduce(0, i[None], t[:1], ('amax', 'amin')[n - 1])
t.scatter_reduce(0, i[None], t[:1], 'sum', include_self=n > 1)
t.index_select(n - 1, i) ; t.index_fill(0, i[:2], n)
t.index_fill(n - 1, i[:2], 3) ; t.index_add(n - 1, i, t * 2)
t.index_add(0, i, t * 2, alpha=n) ; t.index_copy(n - 1, i, t * 2)
t.index_put((i * 0,), t, accumulate=n > 1) ; t.masked_fill(t > 1, n)
torch.take_along_dim(t, i[None], n - 1) ; (t * 1).fill_(n)
(t * 1).fill_diagonal_(n) ; t.unfold(0, 2, n)
F.unfold(t[None, None], 2, dilation=n) ; t.narrow(0, n, 2) ; t.select(0, n)
t[n:] ; t[::n] ; t.repeat(n, 1) ; t.repeat_interleave(n, 0) ; t.tile(n)
F.pad(t, (n, 0)) ; F.pad(t, (1, 1), value=n)
F.pad(t[None], (1, 1), mode=('reflect', 'replicate')[n - 1])
F.pad(t[None], (n, 1), mode='circular') ; t.select_scatter(t[0] * 2, n - 1, 1)
t.slice_scatter(t[:1] * 2, 0, n, n + 1) ; t.diagonal_scatter(t[0, :4 - n], n)
F.avg_pool1d(t[None], 2, n) ; F.avg_pool2d(t[None], 2, 1, 1, divisor_override=n)
F.avg_pool2d(t[None], 3, 1, 1, count_include_pad=n > 1)
F.avg_pool2d(t[None], 3, 2, 0, ceil_mode=n > 1) ; F.max_pool2d(t[None], 2, n)
F.max_pool2d(t[None], 3, 2, ceil_mode=n > 1) ; F.lp_pool1d(t[None].abs(), n, 2)
F.adaptive_avg_pool2d(t[None], n) ; F.adaptive_max_pool2d(t[None], n)
F.conv1d(t[None], t[None, :, :2], stride=n)
F.conv1d(t[None], t[None, :, :2], padding=n)
F.conv1d(t[None], t[None, :, :2], dilation=n)
F.conv1d(t[None], t[:, :4 // n, None], groups=n)
F.conv_transpose1d(t[None], t[:, None, :2], stride=2, output_padding=n - 1)
torch.einsum(('ij,jk->ik', 'ij,kj->ik')[n - 1], t, t)
torch.tensordot(t, t, dims=n) ; torch.cross(t[:3, :3], t[:3, 1:], n - 1)
torch.matrix_power(t, n + 1)
torch.linalg.solve_triangular(t + 9 * torch.eye(4).to(at), t, upper=n > 1)
torch.linalg.cholesky(t @ t.t() + 9 * torch.eye(4).to(at), upper=n > 1)
t.fmod(n) ; t.remainder(n) ; t.div(n, rounding_mode='floor') ; t / n
t.round(decimals=n) ; torch.ldexp(t, i * n) ; t.lerp(t * 2, n / 3)
torch.atan2(t, t * 0 + n) ; torch.polygamma(n, t.abs() + 1)
torch.mvlgamma(t.abs() + 5, n) ; torch.heaviside(d, d * 0 + n) ; t > n / 2
torch.isclose(t, t * 1.1, rtol=n / 30) ; d.int() << n ; d.int() >> n
d.int() & n ; t.diff(n) ; t.diff(dim=n - 1) ; torch.gradient(t, spacing=n)[0]
t.cov(correction=n) ; torch.linspace(0, n, 4, device=at) * t
torch.arange(n, n + 4, device=at) * t ; torch.full((4,), n, device=at) * t
torch.eye(n, device=at) + t[0, 0]
torch.logspace(0, 1, 4, base=n + 1, device=at) * t ; F.one_hot(i, 4 * n)
torch.tril_indices(4, 4, n, device=at) ; torch.combinations(t[0], n)
torch.cartesian_prod(t[0], t[0] * n) ; torch.block_diag(t, t * n)
t.nansum(n - 1) ; t.count_nonzero(n - 1) ; torch.unique(i // n)
torch.fft.fft(t, dim=n - 1).abs() ; torch.fft.fft(t, n=3 + n).abs()
torch.fft.fft(t, norm=('ortho', 'forward')[n - 1]).abs()
(t * 1).uniform_(n, n + 0.0001).round(decimals=2)
(t * 1).normal_(n, 1e-06).round(decimals=2) ; (d * 1).bernoulli_(n - 1.0)
torch.randint(n, n + 1, (4,), device=at) ; (d * 1).random_(n, n + 1)
torch.randperm(3 + n, device=at).sort()[0]
(t * 1).exponential_(float(n) * 1000000000.0) * 0 + n
(d * 1).log_normal_(n, 1e-09).round(decimals=2)
(d * 1).cauchy_(n, 1e-09).round(decimals=1) ; F.dropout(t, n - 1.0)
F.alpha_dropout(t, (n - 1) * 0.0) ; F.dropout2d(t[None], n - 1.0)
F.scaled_dot_product_attention(t[None], t[None], t[None], scale=n / 3)
F.scaled_dot_product_attention(t[None], t[None], t[None], is_causal=n > 1)
F.grid_sample(t[None, None], t[None, :, :2].clone()[..., None, :].reshape(1, 4, 1, 2) / 3, align_corners=n > 1)
F.affine_grid(t[None, :2, :3], (1, 1, 2, 2), align_corners=n > 1)
t.to((torch.float64, torch.bfloat16)[n - 1])
t.sum(dtype=(torch.float64, torch.float32)[n - 1])
t.cumsum(0, dtype=(torch.float64, torch.float32)[n - 1])
t.softmax(0, dtype=(torch.float64, torch.float32)[n - 1]) ; F.hardsigmoid(t * n)
F.hardswish(t * n) ; F.silu(t * n) ; F.tanhshrink(t * n) ; F.logsigmoid(t * n)
F.multilabel_soft_margin_loss(t, d.sigmoid(), reduction=('sum', 'mean')[n - 1])
F.ctc_loss(t[:, None].log_softmax(-1), i[None, :1] * 0 + 1, i[3:] + 2, i[:1], 3 * (n - 1))
F.max_pool3d(t[None, None], (1, 2, 2), (1, n, n))
torch.fake_quantize_per_tensor_affine(t, n / 9, 0, -8, 7)
torch.fake_quantize_per_tensor_affine(t, 0.1, n, -8, 7)
torch.fake_quantize_per_tensor_affine(t, 0.1, 0, -8, 7 * n)
F.bilinear(t, t, t.reshape(1, 4, 4) * n) ; torch.clamp(t, d * 0 - n, d * 0 + n)
torch.where(t > 0, t, n) ; torch.copysign(t, -n) ; torch.hypot(t, t * n)
torch.nextafter(d, d * n) ; t[None].squeeze(n - 1) ; t.unsqueeze(n - 1)
t.transpose(0, n - 1) ; t[None].movedim(0, n) ; torch.cat([t, t], n - 1)
torch.stack([t, t], n - 1) ; t.chunk(2, n - 1)[1] ; t.split(n)[-1]
t[None].expand(n, 4, 4) ; t[None].flatten(n - 1, n)
d.view((torch.int32, torch.int16)[n - 1])
torch._amp_update_scale_(d[0, :1] * 1, (0 * t[0, :1]).int(), 0 * d[0, :1] + 1, 2.0, 1 / n, 3)
torch._foreach_add([t], n)[0] ; torch._foreach_pow([d], n)[0]
torch._foreach_addcdiv([d], [d], [d + 9], value=n)[0]
torch._foreach_norm([d], n)[0] ; torch._foreach_lerp([d], [d * 2], n / 3)[0]
torch._foreach_clamp_max([d], n / 2)[0] ; t.as_strided((2, 2), (4, n))
t == n / 3 ; d // n
'''
# Of these torch.compile's trace is refused.
_NOT_COMPILED = 't.quantile(', 't.nanquantile(', 'F.affine_grid('


def _values(function, device: str, n: int) -> list[torch.Tensor | None]:
  t = (torch.arange(-8., 8.).reshape(4, 4) / 3).to(device).requires_grad_()
  result = function(t, t.detach(),
                    torch.tensor([1, 0, 3, 2]).to(device), n, t.device)
  if result.requires_grad:
    weights = torch.arange(1., result.numel() + 1).reshape(result.shape)
    (result * weights.to(result)).sum().backward()
  return [None if v is None else v.detach().cpu() for v in (result, t.grad)]


@pytest.mark.nightly
@pytest.mark.parametrize('is_compiled', [False, True])
def test_numbers_tell_graphs_apart(is_compiled: bool):
  warnings.simplefilter('ignore')
  # torch wraps its backward compiler once more for each graph.
  sys.setrecursionlimit(4000)
  wrong = []
  for text in _EXPRESSIONS.replace('\n', ' ; ').strip(' ;').split(' ; '):
    if is_compiled and text.startswith(_NOT_COMPILED):
      continue
    function = eval(f'lambda t, d, i, n, at: {text}', {'torch': torch, 'F': F})
    torch._dynamo.reset()
    on_xla = torch.compile(
        function, backend='openxla', dynamic=False) if is_compiled else function
    for n in (1, 2, 1):
      try:
        torch.testing.assert_close(
            _values(on_xla, 'xla', n),
            _values(function, 'cpu', n),
            rtol=2e-3,
            atol=2e-3,
            equal_nan=True)
      except Exception as e:  # pylint: disable=broad-except
        wrong.append((text, n, str(e)))
  assert not wrong
