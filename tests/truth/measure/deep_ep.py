"""In place of DeepEP's package, branch hybrid-ep (MIT): the host side of HybridEPBuffer. Each function makes the tensors that the library makes in
PyTorch's allocator (csrc/hybrid_ep/executor/executor.cu, extension/permute.cu), in that order, and starts no kernel. Every expert is sent as many
tokens as another. The kernels' own buffers are not PyTorch's, and are not made."""
import torch


class HybridEPBuffer:
    experts_of_a_token = 1  # which the library reads off the routing map

    def __init__(self, group, hidden_dim, max_num_of_tokens_per_rank, num_local_experts, use_fp8, num_sms_dispatch_api, num_sms_combine_api):
        self.ranks = group.size()
        self.own_experts = num_local_experts

    def metadata(self, tokens):
        most, own = tokens * self.ranks, self.own_experts
        places = torch.empty((tokens, self.ranks), dtype=torch.int32, device="cuda")
        own_tokens = torch.empty(((tokens - 1) // 16 * 16 + 16, 1), dtype=torch.bool, device="cuda")
        other_nodes = torch.empty((tokens, 0), dtype=torch.bool, device="cuda")
        came = torch.empty(1, dtype=torch.int32, device="cuda")
        return places, own_tokens, other_nodes, came, torch.empty((most, own), dtype=torch.bool, device="cuda")

    def permutation(self, tokens, pad_multiple):
        most, own = tokens * self.ranks, self.own_experts
        rows = torch.empty((most + (pad_multiple or 0), own), dtype=torch.int32, device="cuda")
        overflow = torch.empty(1, dtype=torch.int32, device="cuda")
        blocks = (most + 255) // 256
        scans = [torch.empty((count, own), dtype=torch.int32, device="cuda") for count in (blocks, (blocks + 255) // 256)]
        del scans
        return rows, overflow

    def dispatch_with_permute(self, *, hidden, scaling_factor, routing_map=None, probs=None, num_of_experts_per_rank=None, pad_multiple=None,
                              num_permuted_tokens=None, non_blocking=False, handle=None):
        tokens, width = hidden.shape
        rows = tokens * self.experts_of_a_token
        if handle is None:
            maps = self.metadata(tokens)
            handle = (*maps, *self.permutation(tokens, pad_multiple), tokens)
        permuted = torch.empty((rows, width), dtype=hidden.dtype, device="cuda")
        weights = None if probs is None else torch.empty(rows, dtype=torch.float32, device="cuda")
        return permuted, weights, None, torch.full((self.own_experts,), rows // self.own_experts, dtype=torch.int32), handle

    def combine_with_unpermute(self, *, hidden, handle, probs=None, pad_multiple=None):
        tokens = handle[-1]
        combined = torch.empty((tokens, hidden.shape[1]), dtype=hidden.dtype, device="cuda")
        experts = self.own_experts * self.ranks
        return combined, None if probs is None else torch.empty((tokens, experts), dtype=torch.float32, device="cuda")
