namespace memest {
namespace {

constexpr double kUnknown = 0;

double cost_of(const Plan& plan) { return plan.cost; }

double share_text(double part) { return part; }

}  // namespace
}  // namespace memest
