#include "reader/second_models/distillation.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "memest/reader/catalog.hpp"
#include "memest/spec/framework.hpp"
#include "reader/frameworks/unrecorded.hpp"
#include "reader/job/read_model.hpp"
#include "reader/job/read_training.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

bool is_dense(const ModelSpec& model) {
  const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  return decoder != nullptr && model.experts() == nullptr &&
         std::holds_alternative<SoftmaxAttention>(decoder->attention);
}

constexpr NotRecorded kNotRecordedWithTeacher[] = {
    {[](const Job& job) { return !is_dense(job.model) || !is_dense(job.training->teacher->model); },
     "with experts or latent attention", ""},
    {[](const Job& job) { return job.model.adapter.has_value(); }, "beside adapters",
     "leave 'adapter' out"},
    {[](const Job& job) {
       return job.model.low_rank || job.model.shared_layers || job.model.quantized;
     },
     "beside a compressed model", "leave 'compression' out"},
    {[](const Job& job) { return job.training->loss != TrainingLoss::cross_entropy; },
     "beside another loss than the cross-entropy", "leave 'loss' out"},
    {[](const Job& job) {
       const auto* full = std::get_if<FullRecompute>(&job.training->recompute);
       return full != nullptr && full->reentrant;
     },
     "beside reentrant checkpoints", "use 'recompute: full'"},
    {[](const Job& job) { return job.training->hold_outputs || job.training->use_cache; },
     "beside outputs that are held", "leave 'hold_outputs' and 'use_cache' out"},
};

DType type_of(const Value& teacher) {
  const std::string word = as_text(teacher.find("dtype")).value_or("bf16");
  return word == "fp32" ? DType::fp32 : word == "fp16" ? DType::fp16 : DType::bf16;
}

/// Both answer a number for each of the same tokens.
void check_vocabulary(const Value& written, const Job& job, Diagnostics& diagnostics) {
  const auto* student = std::get_if<DecoderSpec>(&job.model.architecture);
  const auto* teacher = std::get_if<DecoderSpec>(&job.training->teacher->model.architecture);
  if (student == nullptr || teacher == nullptr) return;
  if (teacher->vocab_size != student->vocab_size) {
    diagnostics.push_back(
        error_at(written.span,
                 "the teacher has " + std::to_string(teacher->vocab_size) + " tokens, the model " +
                     std::to_string(student->vocab_size),
                 "its logits are compared token by token: both have one vocabulary"));
  }
}

std::shared_ptr<const Teacher> written_teacher(const Value& training, Diagnostics& diagnostics) {
  const Value* written = training.find("teacher");
  const Value* model = written == nullptr ? nullptr : written->find("model");
  if (model == nullptr || model->kind != ValueKind::mapping) return nullptr;
  auto spec = read_model(*model, name_of_source(model->span), diagnostics);
  if (!spec) return nullptr;
  return std::make_shared<const Teacher>(Teacher{*std::move(spec), type_of(*written)});
}

/// accelerate widens the weights that it shards, and not the reference's.
DType type_as_loaded(const Value& training, const Job& job) {
  const std::string_view own = row_of(job.training->implementation.framework).precision;
  const std::optional<std::string> written = as_text(training.find("precision"));
  const Checked<Recipe> recipe = find_recipe(written.value_or(std::string(own)));
  return recipe.ok() ? recipe.value().weights : job.training->recipe.weights;
}

/// The reference of a program that learns preferences: the model without its adapters, or a copy.
void add_reference(const Value& written, Job& job) {
  TrainingSpec& training = *job.training;
  Teacher reference{job.model, type_as_loaded(written, job),
                    job.model.adapter ? TeacherUse::own_reference : TeacherUse::reference};
  reference.model.adapter.reset();
  training.teacher = std::make_shared<const Teacher>(std::move(reference));
  training.dropout = false;  // DPOConfig: disable_dropout
}

}  // namespace

void read_teacher(const Value& training, Job& job, Diagnostics& diagnostics) {
  TrainingSpec& spec = *job.training;
  spec.teacher = written_teacher(training, diagnostics);
  if (row_of(spec.implementation.loop).prefers && spec.teacher == nullptr) {
    add_reference(training, job);
  }
}

void check_teacher(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || job.training->teacher == nullptr) return;
  if (job.training->teacher->use != TeacherUse::distillation) return;
  const Value& written = *root.find("training")->find("teacher");
  refuse_unrecorded({"distillation", "teacher", written}, kNotRecordedWithTeacher, job,
                    diagnostics);
  check_vocabulary(written, job, diagnostics);
  check_positions("seq_len", *root.find("training"), &job.training->teacher->model, diagnostics);
}

}  // namespace memest
