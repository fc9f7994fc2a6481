"""Operators that are known to differ, by reason: the list only shrinks."""

import torch

_FLOAT32 = {
    'refused: Shapes must be equal rank, but are f32[10,5] and f':
        'clamp_max clamp_min ',
    'a 0-d tensor has no dim to it':
        'cumsum cumprod cummax cummin max.reduction_with_dim median '
        'nanmedian min.reduction_with_dim nn.functional.normalize '
        'nn.functional.cosine_similarity mode gather index_fill index_copy '
        'index_select index_add index_reduce.mean index_reduce.prod '
        'index_reduce.amin index_reduce.amax squeeze.multiple logsumexp all '
        'any argmax argmin amax amin count_nonzero mean nanmean sum ',
    'no sparse tensors':
        'sparse.sampled_addmm to_sparse ',
    "refused: Could not run 'new_compressed_tensor' from the 'xl":
        'sparse.mm.reduce ',
    'refused: The size of mean should be compatible with feature':
        'native_batch_norm _native_batch_norm_legit '
        'nn.functional.batch_norm ',
    'refused: Invalid dimension size -1, is_dynamic=false':
        'nn.functional.pad.replicate_negative ',
    'refused: Source shape does not match the shape of window-re':
        'nn.functional.max_pool2d nn.functional.max_pool3d ',
    'refused: tensor_split expected tensor_indices_or_sections t':
        'tensor_split ',
    'a size of 0 is refused':
        'svd pinverse repeat tile ',
    'takes minutes':
        'svd_lowrank pca_lowrank ',
    'refused: Type not supported: ComplexHalf':
        'chalf ',
    'refused: Expected a proper Tensor but got None (or an undef':
        'logdet ',
    'random, from one seed':
        'exponential normal.in_place uniform '
        'nn.functional.fractional_max_pool3d '
        'nn.functional.scaled_dot_product_attention randn randn_like '
        'rand_like randint randint_like multinomial normal '
        'normal.number_mean bernoulli nn.functional.dropout '
        'nn.functional.dropout2d nn.functional.dropout3d '
        'nn.functional.alpha_dropout '
        'nn.functional.feature_alpha_dropout.with_train '
        'nn.functional.multi_head_attention_forward ',
    'refused: the nuclear norm of a batch':
        'norm.nuc ',
    'a size of 0 gives another shape or is refused':
        'linalg.cond linalg.inv_ex linalg.matrix_rank linalg.slogdet',
}
_BOOL = {
    'a gradient of bool, with the dtype of a CPU':
        'native_dropout_backward ',
    'a 0-d tensor has no dim to it':
        'max.reduction_with_dim min.reduction_with_dim index_fill '
        'index_copy index_select index_add squeeze.multiple logsumexp '
        'all any sum cummax count_nonzero masked.sum masked.prod ',
    'refused: Concatenate expects at least one argumen':
        'repeat ',
    'refused: Could not run aten::_sparse_coo_tensor_':
        'to_sparse ',
    'refused: Expected element type in shape to be ari':
        'atan2 ',
    'refused: Shapes must be equal rank, but are pred[':
        'clamp_max clamp_min ',
    'refused: Type not supported: ComplexHalf':
        'chalf ',
    'refused: bool is no number to XLA':
        'cos exp sin __rdiv__ tanh reciprocal rsqrt sqrt isnan sigmoid ',
    'refused: gather(): expected rank of input (1) and':
        'gather ',
    'refused: tensor_split expected tensor_indices_or_':
        'tensor_split ',
}
_INT64 = {
    'a 0-d tensor has no dim to it':
        'cumsum cummax max.reduction_with_dim min.reduction_with_dim '
        'index_fill index_copy index_select index_add squeeze.multiple '
        'logsumexp all any argmax argmin count_nonzero sum '
        'masked.sum masked.prod masked.argmax masked.argmin ',
    'a CPU leaves the index of equal values open':
        'kthvalue topk ',
    'a gradient of integers, with the dtype of a CPU':
        'native_dropout_backward ',
    'random, from one seed':
        'randint randint_like ',
    'refused: Shapes must be equal rank, but are s64[5]':
        'clamp_max clamp_min ',
    'refused: Invalid dimension size -4':
        'nn.functional.pad.replicate_negative ',
    'refused: tensor_split expected tensor_indices_or_':
        'tensor_split ',
    'refused: gather(): expected rank of input (1) and':
        'gather ',
    'refused: Type not supported: ComplexHalf':
        'chalf ',
    'a size of 0 is refused':
        'repeat ',
    'no sparse tensors':
        'to_sparse ',
    'refused: the exponential of integers':
        'masked.logsumexp ',
}
_COMPLEX64 = {
    'random, from one seed':
        'normal.in_place uniform randn randn_like rand_like ',
    'refused: value cannot be converted to type double wit':
        'addmm ',
    'a 0-d tensor has no dim to it':
        'cumsum cumprod nn.functional.normalize gather index_fill '
        'index_copy index_select index_add squeeze.multiple logsumexp '
        'all any count_nonzero sum masked.sum masked.prod masked.mean ',
    'no sparse tensors':
        'sparse.sampled_addmm to_sparse ',
    'refused: Invalid type for NanValue (C64)':
        'var_mean var_mean.unbiased std_mean std_mean.unbiased '
        'nn.functional.rms_norm mean std std.unbiased var var.unbiased ',
    'refused: Check failed: scalar_value.isIntegral(): Sca':
        'constant_pad_nd ',
    'refused: Invalid dimension size -4, is_dynamic=false':
        'nn.functional.pad.replicate_negative ',
    'refused: Function MulBackward0 returned an invalid gr':
        'to ',
    'refused: tensor_split expected tensor_indices_or_sect':
        'tensor_split ',
    'refused: The operator aten::view_as_real appears to b':
        'isinf ',
    'refused: Error while lowering: [] aten::isnan, xla_sh':
        'isnan ',
    'refused: the singular values of complex numbers':
        'svd svd_lowrank pca_lowrank pinverse norm.nuc linalg.cond '
        'linalg.lstsq linalg.lstsq.grad_oriented linalg.matrix_rank '
        'linalg.pinv linalg.pinv.singular linalg.pinv.hermitian '
        'linalg.svd linalg.svdvals ',
    'refused: Type not supported: ComplexHalf':
        'chalf ',
    'refused: Input must be a floating type':
        'renorm linalg.norm linalg.norm.subgradients_at_zero '
        'linalg.matrix_norm linalg.vector_norm masked.normalize ',
    'a size of 0 is refused':
        'repeat tile logdet linalg.slogdet ',
    'refused: Unsupported XLA type 15':
        'masked.logsumexp ',
}
DIFFER: dict[torch.dtype, dict[str, str]] = {
    torch.float32: _FLOAT32,
    torch.bool: _BOOL,
    torch.int64: _INT64,
    torch.complex64: _COMPLEX64,
}
