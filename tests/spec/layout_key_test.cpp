// Layouts are keys of what a search knows: of two that are equal nothing differs, so one that
// differs in any member is another key.
#include <catch2/catch_test_macros.hpp>
#include <compare>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "../draws.hpp"
#include "memest/spec/parallel/sharing.hpp"

namespace memest {
namespace {

/// Gives every member to `visit`. The bindings do not compile when a member is new: it belongs
/// here.
template <class Visit>
void each_member(DataParallelBuckets& buckets, const Visit& visit) {
  auto& [cap, views, unused] = buckets;
  visit(cap), visit(views), visit(unused);
}
template <class Visit>
void each_member(DeepSpeed& settings, const Visit& visit) {
  auto& [bucket, overlap, contiguous, prefetch, persistence, live, reuse, zero_init, sub_group,
         auto_prefetch, auto_persistence] = settings;
  visit(bucket), visit(overlap), visit(contiguous), visit(prefetch), visit(persistence);
  visit(live), visit(reuse), visit(zero_init), visit(sub_group), visit(auto_prefetch);
  visit(auto_persistence);
}
template <class Visit>
void each_member(FullySharded& fsdp, const Visit& visit) {
  auto& [version, reshard, replicate, init, sync, apart, no_sync] = fsdp;
  visit(version), visit(reshard), visit(replicate), visit(init), visit(sync), visit(apart);
  visit(no_sync);
}
template <class Visit>
void each_member(HostOffload& offload, const Visit& visit) {
  auto& [optimizer, parameters, pinned, optimizer_on_nvme, parameters_on_nvme] = offload;
  visit(optimizer), visit(parameters), visit(pinned), visit(optimizer_on_nvme);
  visit(parameters_on_nvme);
}
template <class Visit>
void each_member(LayerDivision& division, const Visit& visit) {
  auto& [tensor, context, exchange, expert, whole_experts, sequence, in_units, in_pieces] =
      division;
  visit(tensor), visit(context), visit(exchange), visit(expert), visit(whole_experts);
  visit(sequence), visit(in_units), visit(in_pieces);
}
template <class Visit>
void each_member(Sharing& sharing, const Visit& visit) {
  auto& [zero, distributed_optimizer, fsdp, offload] = sharing;
  visit(zero), visit(distributed_optimizer), visit(fsdp);
  if (fsdp) each_member(*fsdp, visit);
  each_member(offload, visit);
}
template <class Visit>
void each_member(Parallelism& layout, const Visit& visit) {
  auto& [data, tensor, pipeline, context, context_exchange, expert, expert_tensor, sequence,
         schedule, virtual_stages, first_stage_layers, last_stage_layers, account_for_embedding,
         account_for_loss, stage_layers, zero, ddp, deepspeed, fsdp, offload, distributed_optimizer,
         overlap_grad_reduce, overlap_param_gather, init_on_meta_device] = layout;
  visit(data), visit(tensor), visit(pipeline), visit(context), visit(context_exchange);
  visit(expert), visit(expert_tensor), visit(sequence), visit(schedule), visit(virtual_stages);
  visit(first_stage_layers), visit(last_stage_layers), visit(account_for_embedding);
  visit(account_for_loss), visit(stage_layers), visit(zero);
  each_member(ddp, visit);
  each_member(deepspeed, visit);
  visit(fsdp);
  if (fsdp) each_member(*fsdp, visit);
  each_member(offload, visit);
  visit(distributed_optimizer), visit(overlap_grad_reduce), visit(overlap_param_gather);
  visit(init_on_meta_device);
}

/// Another value than the member has.
void change(bool& member) { member = !member; }
template <std::integral Number>
void change(Number& member) {
  ++member;
}
void change(Bytes& member) { member += Bytes(1); }
template <class Value>
void change(std::vector<Value>& member) {
  member.push_back(Value{1});
}
template <class Value>
void change(std::optional<Value>& member) {
  member = member ? std::nullopt : std::optional(Value{});
}
template <class Enum>
  requires std::is_enum_v<Enum>
void change(Enum& member) {
  member = static_cast<Enum>(static_cast<int>(member) == 0 ? 1 : 0);
}

template <class Noun>
Noun drawn(test::Draws& draws) {
  Noun noun;
  for (int i = 0; i < 2; ++i) {  // what is present by the first round is changed in the second
    each_member(noun, [&draws](auto& member) {
      if (draws.one_of(true, false)) change(member);
    });
  }
  return noun;
}

template <class Noun>
int check_members(test::Draws& draws) {
  constexpr int kDraws = 200;
  int changed = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Noun noun = drawn<Noun>(draws);
    Noun same = noun;
    CHECK(same == noun);
    int members = 0;
    each_member(same, [&members](auto&) { ++members; });
    for (int which = 0; which < members; ++which) {
      Noun other = noun;
      int index = 0;
      each_member(other, [&](auto& member) {
        if (index++ == which) change(member);
      });
      INFO("member " << which);
      CHECK(other != noun);
      CHECK((other < noun) != (noun < other));
      ++changed;
    }
  }
  return changed;
}

}  // namespace

TEST_CASE("a layout that differs in any one member is another key") {
  test::Draws draws(60);
  CHECK(check_members<Parallelism>(draws) > 200 * 30);
  CHECK(check_members<Sharing>(draws) > 200 * 8);
  CHECK(check_members<LayerDivision>(draws) == 200 * 8);
}

TEST_CASE("what a layout shares is what was put into it") {
  test::Draws draws(61);
  for (int i = 0; i < 200; ++i) {
    const auto sharing = drawn<Sharing>(draws);
    auto layout = drawn<Parallelism>(draws);
    share(layout, sharing);
    CHECK(sharing_of(layout) == sharing);
    CHECK(layout.division().in_units == sharing.in_units());
  }
}

}  // namespace memest
