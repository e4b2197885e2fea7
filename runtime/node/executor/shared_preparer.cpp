#include "runtime/node/executor/shared_preparer.hpp"

#include <algorithm>
#include <iterator>

namespace troupe::control {

bool shared_preparer::request::operator==(const request& o) const {
  return job == o.job && original == o.original && changes == o.changes && what.text == o.what.text && what.file == o.what.file &&
         what.overrides == o.what.overrides;
}

bool shared_preparer::entry::in_use() const {
  const auto elsewhere = [](const std::shared_ptr<const prepared_job>& j) { return j.use_count() > 1; };
  // `unchanged` and the plan may be one object.
  return plan &&
         (plan->job.use_count() > (plan->job == unchanged ? 2 : 1) || std::any_of(continued.begin(), continued.end(), elsewhere));
}

shared_preparer::entry* shared_preparer::find(const request& asked) {
  const auto at = std::find_if(kept_.begin(), kept_.end(), [&](const entry& e) { return e.asked == asked; });
  return at == kept_.end() ? nullptr : &*at;
}

shared_preparer::entry* shared_preparer::of(const std::shared_ptr<const prepared_job>& j) {
  const auto at = std::find_if(kept_.begin(), kept_.end(), [&](const entry& e) { return e.plan && e.plan->job == j; });
  return at == kept_.end() ? nullptr : &*at;
}

expected<made_plan, diagnostics> shared_preparer::keep(request asked, expected<made_plan, diagnostics> unchanged) {
  ++made_;
  auto full = unchanged ? unchanged->job : nullptr;
  auto plan = std::move(unchanged);
  if (full && then_) {
    auto changed = then_(*full);
    if (changed) {
      auto hash = plan_hash((*changed)->plan);
      plan = made_plan{*std::move(changed), std::move(hash)};
    } else {
      plan = unexpected(std::move(changed).error());
    }
  }
  kept_.push_back({std::move(asked), std::move(full), plan, {}});
  drop_unused();
  return plan;
}

void shared_preparer::drop_unused() {
  auto unused = std::count_if(kept_.begin(), kept_.end(), [](const entry& e) { return !e.in_use(); });
  for (auto at = kept_.begin(); at != kept_.end() && unused > static_cast<std::ptrdiff_t>(unused_kept);) {
    const bool drop = !at->in_use();
    at = drop ? kept_.erase(at) : std::next(at);
    if (drop) --unused;
  }
}

expected<made_plan, diagnostics> shared_preparer::first(std::uint32_t job, const job_text& what) {
  request asked;
  asked.job = job;
  asked.what = what;
  if (const auto* e = find(asked)) return e->plan;
  return keep(std::move(asked), inside_->first(job, what));
}

expected<made_plan, diagnostics> shared_preparer::again(const std::shared_ptr<const prepared_job>& original, const amendments& a) {
  request asked;
  asked.original = original;
  asked.changes = a;
  if (const auto* e = find(asked)) return e->plan;
  const auto* of_original = of(original);
  return keep(std::move(asked), inside_->again(of_original ? of_original->unchanged : original, a));
}

std::shared_ptr<const prepared_job> shared_preparer::at_step(const std::shared_ptr<const prepared_job>& j, std::uint64_t step) {
  auto* e = of(j);
  if (!e) return job_preparer::at_step(j, step);
  for (const auto& c : e->continued)
    if (c->first_step == step) return c;
  std::erase_if(e->continued, [](const auto& c) { return c.use_count() == 1; });
  return e->continued.emplace_back(job_preparer::at_step(j, step));
}

}  // namespace troupe::control
