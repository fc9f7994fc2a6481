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
        'any argmax argmin count_nonzero mean nanmean sum ',
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
    "refused: shape '[1, 9, 0, 3, 0, 3]' is invalid for input of":
        'nn.functional.pixel_shuffle ',
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
    'WRONG: not looked into':
        '_chunk_cat norm.nuc amax amin nn.functional.pdist ',
    'a size of 0 gives another shape or is refused':
        'linalg.cond linalg.inv_ex linalg.matrix_rank linalg.slogdet',
}
_BOOL = {
    'WRONG: not looked into':
        'asin cummax isneginf _chunk_cat native_dropout_backward '
        'count_nonzero nn.functional.pixel_shuffle ',
    'a 0-d tensor has no dim to it':
        'max.reduction_with_dim min.reduction_with_dim index_fill '
        'index_copy index_select index_add squeeze.multiple logsumexp '
        'all any amax amin sum masked.sum masked.prod ',
    'refused: Concatenate expects at least one argumen': 'repeat ',
    'refused: Could not run aten::_sparse_coo_tensor_': 'to_sparse ',
    'refused: Expected element type in shape to be ari': 'atan2 ',
    'refused: Shapes must be equal rank, but are pred[': 'clamp_max clamp_min ',
    'refused: Type not supported: ComplexHalf': 'chalf ',
    'refused: bool is no number to XLA':
        'acos acosh asinh atan atanh cos cosh exp sin sinh __rdiv__ tan '
        'tanh expm1 reciprocal rsqrt sqrt isnan sigmoid erf erfc erfinv ',
    'refused: gather(): expected rank of input (1) and': 'gather ',
    'refused: tensor_split expected tensor_indices_or_': 'tensor_split ',
}
DIFFER: dict[torch.dtype, dict[str, str]] = {
    torch.float32: _FLOAT32,
    torch.bool: _BOOL,
}
