"""In place of flash-attn's compiled module: the host side of flash-attn 2.8.3's csrc/flash_attn/flash_api.cpp (BSD-3-Clause). Each function
makes the tensors that it makes there, in that order, and starts no kernel."""
import math
import torch

F32 = torch.float32


def _up(x, m):
    return (x + m - 1) // m * m


def _splits_heuristic(blocks, sms, n_blocks, most):
    if blocks >= 0.8 * sms:
        return 1
    most = min(most, sms, n_blocks)
    ceil = lambda a, b: (a + b - 1) // b
    eligible = lambda n: n == 1 or ceil(n_blocks, n) != ceil(n_blocks, n - 1)
    efficiency, best = [], 0.0
    for n in range(1, most + 1):
        if not eligible(n):
            efficiency.append(0.0)
            continue
        waves = blocks * n / sms
        e = waves / math.ceil(waves)
        best = max(best, e)
        efficiency.append(e)
    for n in range(1, most + 1):
        if eligible(n) and efficiency[n - 1] >= 0.85 * best:
            return n
    return 1


def _splitkv(b, heads, d, sk, sq, d_rounded, dropout, like):
    if dropout != 0.0:
        return None, None
    block_n = 256 if d <= 64 else 128 if d <= 128 else 64
    n_blocks = (sk + block_n - 1) // block_n
    m_blocks = (sq + 63) // 64
    sms = torch.cuda.get_device_properties(like.device).multi_processor_count
    n = _splits_heuristic(b * heads * m_blocks, sms * 2, n_blocks, 128)
    if n <= 1:
        return None, None
    lse = torch.empty((n, b, heads, sq), dtype=F32, device=like.device)
    return lse, torch.empty((n, b, heads, sq, d_rounded), dtype=F32, device=like.device)


def fwd(q, k, v, out, alibi, dropout, scale, causal, left, right, softcap, return_softmax, gen):
    assert q.dtype in (torch.float16, torch.bfloat16) and k.dtype == q.dtype and v.dtype == q.dtype, (q.dtype, k.dtype)
    b, sq, heads, d = q.shape
    assert sq > 1 and d % 8 == 0 and d <= 256
    out = torch.empty_like(q)
    d_rounded = _up(d, 32 if d <= 128 else 64)
    lse = torch.empty((b, heads, sq), dtype=F32, device=q.device)
    p = torch.empty((0,), dtype=q.dtype, device=q.device)
    accum = _splitkv(b, heads, d, k.shape[1], sq, d_rounded, dropout, q)
    rng = torch.empty((2,), dtype=torch.int64, device=q.device)
    return out, lse, p, rng


def varlen_fwd(q, k, v, out, cu_q, cu_k, used, leftpad, table, alibi, max_q, max_k, dropout, scale, zero, causal,
               left, right, softcap, return_softmax, gen):
    assert q.dtype in (torch.float16, torch.bfloat16) and k.dtype == q.dtype and v.dtype == q.dtype, (q.dtype, k.dtype)
    total, heads, d = q.shape
    assert d % 8 == 0 and d <= 256
    out = torch.empty_like(q)
    lse = torch.empty((heads, total), dtype=F32, device=q.device)
    p = torch.empty((0,), dtype=q.dtype, device=q.device)
    rng = torch.empty((2,), dtype=torch.int64, device=q.device)
    return out, lse, p, rng


def bwd(dout, q, k, v, out, lse, dq, dk, dv, alibi, dropout, scale, causal, left, right, softcap, deterministic, gen,
        rng):
    b, sq, heads, d = q.shape
    kv = k.shape[2]
    d_rounded = _up(d, 32 if d <= 128 else 64)
    rows = _up(sq, 128)
    softmax_d = torch.empty((b, heads, rows), dtype=F32, device=q.device)
    assert not deterministic
    dq_accum = torch.empty((b, rows, heads, d_rounded), dtype=F32, device=q.device)
    if kv != heads:
        dke = torch.empty((b, k.shape[1], heads, d), dtype=q.dtype, device=q.device)
        dve = torch.empty((b, k.shape[1], heads, d), dtype=q.dtype, device=q.device)
        torch.sum(dke.reshape(b, k.shape[1], kv, heads // kv, d), 3, out=dk)
        torch.sum(dve.reshape(b, k.shape[1], kv, heads // kv, d), 3, out=dv)
        del dve, dke
    del dq_accum
    return dq, dk, dv, softmax_d


def varlen_bwd(dout, q, k, v, out, lse, dq, dk, dv, cu_q, cu_k, alibi, max_q, max_k, dropout, scale, zero, causal,
               left, right, softcap, deterministic, gen, rng):
    total, heads, d = q.shape
    b = cu_q.numel() - 1
    kv = k.shape[1]
    d_rounded = _up(d, 32 if d <= 128 else 64)
    softmax_d = torch.empty((heads, total + 128 * b), dtype=F32, device=q.device)
    assert not deterministic
    dq_accum = torch.empty((total + 128 * b, heads, d_rounded), dtype=F32, device=q.device)
    if kv != heads:
        dke = torch.empty((total, heads, d), dtype=q.dtype, device=q.device)
        dve = torch.empty((total, heads, d), dtype=q.dtype, device=q.device)
        torch.sum(dke.reshape(total, kv, heads // kv, d), 2, out=dk)
        torch.sum(dve.reshape(total, kv, heads // kv, d), 2, out=dv)
        del dve, dke
    del dq_accum
    return dq, dk, dv, softmax_d
