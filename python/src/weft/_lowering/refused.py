"""Operations of ATen that no program has, and those that draw random numbers. Lowering refuses them by name,
and says what to write in their place."""

from __future__ import annotations

# What no program has: what it is, and what to write in its place.
REFUSED = {
    name: why
    for names, why in (
        (
            "randperm multinomial rrelu_with_noise alpha_dropout feature_dropout poisson",
            "draws random numbers by a distribution that weft lacks: write it by torch.rand_like, "
            "torch.randn_like, torch.bernoulli or nn.Dropout",
        ),
        (
            "sort argsort topk kthvalue median nanmedian unique _unique2 unique_consecutive unique_dim "
            "searchsorted bucketize cumsum cumprod cummax cummin repeat_interleave",
            "orders, ranks or accumulates rows: aggregate a vertex's edges by sum, mean, max, min, mul or "
            "softmax, and make other edges (to_undirected, coalesce) before training",
        ),
        (
            "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
            "_native_multi_head_attention cdist _cdist_forward pdist",
            "compares all pairs of vertices, which takes memory and time of their square: attend over "
            "edges, by propagate",
        ),
        (
            "argmax argmin nonzero_static masked_select",
            "gives positions, which depend on the values: write a comparison and torch.where",
        ),
        (
            "_sparse_mm sparse_coo_tensor _sparse_coo_tensor_unsafe to_sparse spmm "
            "_sparse_csr_tensor_unsafe sparse_csr_tensor",
            "makes a sparse matrix: give edge_index to propagate",
        ),
        (
            "linalg_inv_ex linalg_solve _linalg_svd _linalg_eigh linalg_qr inverse",
            "is linear algebra that no program has: compute it before training, as features",
        ),
    )
    for name in names.split()
}

# Operations that draw a number for each element.
DRAWS = set(
    "rand rand_like randn randn_like bernoulli uniform normal normal_functional exponential randint "
    "randint_like".split()
)
DRAWS_NO_ROWS = (
    "draws random numbers of no rows: draw them for rows of vertices or edges, as torch.rand_like(x)"
)

# Why forward may not change what a module keeps.
KEEPS = (
    "of what a module keeps from call to call weft has the statistics of batch norm alone, and in training "
    "buffers that count steps; change it outside of forward, between trainings"
)
