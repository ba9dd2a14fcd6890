#include "memory/models/teacher_model.hpp"

#include "memest/units/int128.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

EngineSettings settings_of(const TeacherModel::Parts& parts, std::uint32_t place) {
  const EngineSettings& student = parts.settings;
  EngineSettings settings;
  settings.hooks = parts.wrapper;
  settings.workspaces = student.workspaces;
  settings.buffers = student.buffers;
  settings.gradients = false;
  settings.first_place = place;
  return settings;
}

void place(const Inventory& inventory, DType weights, LoopTensor whose, Recorder& recorder) {
  const ModelTensors tensors = model_tensors(inventory);
  for (const auto& [is_buffer, i] : tensors.order) {
    const TensorPlace& place = is_buffer ? tensors.buffers[i] : tensors.parameters[i];
    const DType type = is_buffer ? inventory.buffers[place.row].dtype : weights;
    recorder.allocate(checked_multiply(place.elements, size_of(type)),
                      loop_label(Holding::weights, whose));
    // Tensor.__deepcopy__ copies the storage, and makes a scalar whose storage it takes the place
    // of; Parameter's clones.
    if (is_buffer && whose == LoopTensor::average) {
      recorder.make_and_free(size_of(type), loop_label(Holding::temporaries, whose));
    }
  }
}

}  // namespace

void place_second_models(const Graph& graph, const Job& job, Recorder& recorder) {
  if (!job.training) return;
  const Teacher* const teacher = job.training->teacher.get();
  // An own reference's weights are the model's.
  if (teacher != nullptr && teacher->use != TeacherUse::own_reference) {
    place(graph.teacher_parameters, teacher->weights, LoopTensor::teacher, recorder);
  }
  if (job.training->averages_weights) {
    place(graph.parameters, job.training->recipe.weights, LoopTensor::average, recorder);
  }
}

TeacherModel::TeacherModel(const Parts& parts)
    : part_(part_of(parts.graph, parts.graph.teacher, parts.timeline)),
      order_(part_.graph, parts.device),
      recorder_(parts.recorder),
      engine_(part_.graph, order_, settings_of(parts, part_.place), parts.recorder) {}

TeacherModel::Answer TeacherModel::forward(StorageId batch) {
  engine_.forward(batch);
  engine_.end_autocast();
  Answer answer;
  for (const Answered& answered : engine_.take_answered()) {
    answer.others.push_back(recorder_.adopt(answered.storage));
  }
  answer.result = recorder_.adopt(engine_.logits());
  return answer;
}

}  // namespace memest
