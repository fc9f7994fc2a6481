"""Which operations are tried with their inputs split over devices too.

All are tried alone. Split nine ways each they would take minutes more, and many
are partitioned as others are.
"""

from __future__ import annotations

from .operation import Operation

# For functions of single elements, which XLA and Shardy partition by one rule,
# these stand for all: shapes, dtypes and broadcasts of every kind are there.
_STANDING_FOR = {
    'unary': 'exp exp_bfloat16 exp_rank_1 exp_scalar log_uneven tanh sqrt abs '
             'round_half_to_even',
    'arithmetic':
        'add add_uneven add_rank_1 add_rank_4 add_bfloat16 div maximum '
        'remainder addcmul add_row add_column mul_outer mul_scalar_tensor '
        'add_ranks add_float32_bfloat16 pow atan2',
    'special_values':
        'special_copy special_add special_maximum special_amax special_sum '
        'special_mean special_logsumexp special_softmax special_cumsum '
        'special_any_nan',
    'logic': 'eq lt_int64 lt_uneven logical_and bitwise_xor where where_row '
             'where_bool',
    'integers':
        'add_int32 mul_int64 add_uint8 remainder_int64 shift_right_int32 '
        'sum_wraps_int32',
    'casts': 'float32_to_bfloat16 bfloat16_to_float32 int64_to_float32 '
             'float32_to_int32 int64_to_int32 bool_to_float32',
    'activations':
        'relu gelu silu glu softmax_dim_0 softmax_dim_1 log_softmax_dim_1 '
        'softmax_bfloat16 softmax_uneven_dim_0 softmax_uneven_dim_1 prelu',
}
# Of the other families, what differs from another only by a dtype or a number,
# or is made of others.
_ONLY_ALONE = {
    'reductions':
        'sum_large sum_long_bfloat16 sum_keepdim sum_float16 sum_float64 '
        'sum_int32 sum_to_int64 prod_dim_1 min_int32 argmax_bfloat16 amin '
        'min_with_indices var_population std norm_1 norm_inf',
    'sorting': 'sort_descending sort_stable_long sort_int32 sort_int64 argsort '
               'topk_smallest kthvalue',
    'contractions':
        'matmul_large matmul_long_bfloat16 matmul_float16 matmul_float64 '
        'matmul_both_transposed bmm_bfloat16 baddbmm addmm einsum_transposed '
        'tensordot linear_bfloat16 bilinear einsum_three',
    'convolutions':
        'conv3d conv1d_padding conv2d_1x1 conv1d_groups conv_transpose1d '
        'conv2d_bfloat16 conv_transpose2d_groups',
    'shapes':
        'transpose_large unsqueeze squeeze tile_uneven reshape_bfloat16 '
        'reshape_int64 reshape_bool movedim flip_both rot90 cat_of_dtypes '
        'stack_dim_2 pad_number pad_replicate pad_reflect_2d tril_uneven '
        'diag_embed roll pad_circular',
    'indexing':
        'narrow ellipsis_and_none index_select_int32 index_rows index_columns '
        'embedding_rank_1 embedding_bfloat16 gather_rank_3',
    'scatters':
        'index_add_alpha scatter_add_int64 scatter_reduce_sum '
        'index_put_rows_accumulate index_copy masked_fill_row fill_column '
        'select_scatter scatter_number',
    'normalisation':
        'layer_norm_rank_3 layer_norm_bfloat16 layer_norm_unweighted '
        'normalize_uneven instance_norm local_response_norm batch_norm_running '
        'group_norm_uneven layer_norm_two_dims',
    'losses': 'cross_entropy_none cross_entropy_ignored cross_entropy_smoothed '
              'nll_loss mse_loss_none smooth_l1_loss binary_cross_entropy '
              'kl_div_none cross_entropy_of_ratios nll_loss_rank_3',
    'pooling':
        'max_pool1d adaptive_max_pool2d avg_pool1d avg_pool2d_padding '
        'adaptive_avg_pool2d upsample_bilinear_corners max_pool2d_with_indices',
    'gradients':
        'bmm_gradient silu_gradient tanh_gradient sigmoid_gradient '
        'leaky_relu_gradient log_softmax_gradient softmax_uneven_gradient '
        'var_gradient avg_pool2d_gradient conv1d_gradient '
        'conv_transpose2d_gradient',
    'factories': 'arange_step full ones_like full_like_int eye_uneven',
}


def is_tried_sharded(operation: Operation) -> bool:
  """Tests whether an operation is tried with split inputs."""
  family, name = operation.family, operation.name
  if family in _STANDING_FOR:
    return name in _STANDING_FOR[family].split()
  return name not in _ONLY_ALONE.get(family, '').split()
