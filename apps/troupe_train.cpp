// `troupe train JOB` and `troupe test JOB`, embedded: the job runs in this process and follows Ctrl-C.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "actors/embedded.hpp"
#include "apps/troupe_commands.hpp"
#include "apps/troupe_convolutions.hpp"
#include "apps/troupe_progress.hpp"
#include "apps/troupe_signals.hpp"
#include "ops/device.hpp"

namespace troupe {
namespace {

constexpr const char* no_device = "this machine has no CPU that the kernels know";

std::string checkpoint_path(const train_arguments& a, const prepared_job& j) {
  return a.checkpoint.empty() ? j.spec.name + ".checkpoint.safetensors" : a.checkpoint;
}

run_extent extent_of(const prepared_job& j) { return {j.first_step, j.last_step, j.steps_per_epoch, j.spec.data.batch}; }

// One embedded run that prints what happens, and keeps a word about its files.
class told_run {
 public:
  told_run(std::shared_ptr<prepared_job> j, const output& out, std::shared_ptr<device> dev, unsigned threads)
      : job_(std::move(j)), dev_(std::move(dev)), told_(out, extent_of(*job_)) {
    embedded_options o;
    o.threads = threads;
    o.dev = dev_;
    o.on_event = [this](const event_effect& e) { hear(e); };
    o.on_store = [this](const store_effect& s) { keep(s); };
    run_ = std::make_unique<embedded_run>(job_, std::move(o));
  }

  std::string checkpoint_file;  // empty: none is written
  std::string weights_file;     // empty: none is written

  int finish() {
    const signal_watch watch([this](int) {
      asked_ = true;
      run_->stop();
    });
    auto r = run_->run();
    if (!r.ok) {
      told_.event({"error", r.step, {}, r.error}, {{"where", r.where}});
      return exit_failed;
    }
    if (!weights_file.empty() && !trouble_)
      if (auto e = save_weights(*job_, r.weights, r.step, weights_file)) trouble_ = e;
    // The event "done" comes last, and only when the files are written: where one could not be, the last event is the error.
    if (trouble_) {
      told_.event({"error", r.step, {}, trouble_->message}, {{"where", where_of(*trouble_)}});
      return exit_failed;
    }
    done_.step = r.step;
    told_.event(done_, {{"weights_sha256", r.weights_sha256}});
    return exit_done;
  }

 private:
  static std::string where_of(const record_error& e) { return e.tensor.empty() ? e.file : e.file + ": " + e.tensor; }

  void hear(const event_effect& e) {
    if (e.kind == "error") return;  // told once, by finish()
    if (e.kind == "done") return void(done_ = e);
    if (e.kind != "checkpoint") return told_.event(e);
    if (checkpoint_file.empty()) return;
    if (!checkpoint_trouble_) return told_.event(e, {{"file", checkpoint_file}});
    // Training goes on without this checkpoint. Where it was to be the one that a stopped run leaves (`asked_`), the run has
    // failed.
    told_.event({"alert", e.step, {}, checkpoint_trouble_->to_string()});
    if (asked_) trouble_ = checkpoint_trouble_;
  }

  void keep(const store_effect& s) {
    if (s.what != "checkpoint" || checkpoint_file.empty()) return;
    checkpoint_trouble_ = save_checkpoint_file(*job_, s, dev_->numerics_id(), checkpoint_file);
  }

  std::shared_ptr<prepared_job> job_;
  std::shared_ptr<device> dev_;
  progress told_;
  std::unique_ptr<embedded_run> run_;
  event_effect done_;
  std::optional<record_error> trouble_, checkpoint_trouble_;
  std::atomic<bool> asked_{false};
};

}  // namespace

int run_train(const train_arguments& a, const output& out) {
  if (!a.cluster.empty()) return run_train_cluster(a, out);
  if (!a.weights.empty() && !a.resume.empty()) return out.wrong("--resume", "give --weights or --resume, not both");
  auto loaded = load_job(a);
  if (auto* bad = std::get_if<diagnostics>(&loaded)) return out.wrong(*bad);
  auto j = std::get<std::shared_ptr<prepared_job>>(loaded);
  for (const auto& file : {a.out, checkpoint_path(a, *j)})
    if (auto why = file.empty() ? std::string() : why_unwritable(file); !why.empty()) return out.wrong(file, why);
  const std::shared_ptr<device> dev = make_cpu_device();
  if (!dev) return out.failed("cpu", no_device);
  if (auto code = settle_algorithms(j, *dev, out, a.resume)) return *code;
  if (!a.weights.empty()) {
    auto from = begin_from_weights(*j, a.weights);
    if (auto* bad = std::get_if<record_error>(&from)) return wrong_file(out, *bad);
  }
  if (!a.resume.empty()) {
    if (auto bad = resume_from(*j, a.resume, dev->numerics_id())) return wrong_file(out, *bad);
    if (j->last_step > 0 && j->first_step > j->last_step)
      return out.wrong(a.resume, "it is of step " + std::to_string(j->first_step) + ", and the job ends at step " +
                                     std::to_string(j->last_step));
  }
  out.text(job_summary(*j));
  told_run told(j, out, dev, a.threads);
  told.checkpoint_file = checkpoint_path(a, *j);
  told.weights_file = a.out;
  return told.finish();
}

int run_test(const test_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (auto* bad = std::get_if<diagnostics>(&loaded)) return out.wrong(*bad);
  auto j = std::get<std::shared_ptr<prepared_job>>(loaded);
  const std::shared_ptr<device> dev = make_cpu_device();
  if (!dev) return out.failed("cpu", no_device);
  if (auto code = settle_algorithms(j, *dev, out)) return *code;
  auto from = begin_from_weights(*j, a.weights);
  if (auto* bad = std::get_if<record_error>(&from)) return wrong_file(out, *bad);
  if (j->data->size(split::test) == 0) return out.wrong(a.file, "its data has no test examples");
  // A run that begins at its end: nothing is trained, and the evaluation that every run ends with is all there is.
  j->first_step = j->last_step = std::max<std::uint64_t>(1, std::get<std::uint64_t>(from));
  j->spec.train.finish = {};
  told_run told(j, out, dev, a.threads);
  return told.finish();
}

}  // namespace troupe
