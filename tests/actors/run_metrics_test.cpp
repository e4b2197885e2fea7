// /metrics of a run in this process.
#include "actors/metrics/run_metrics.hpp"

#include "tests/actors/embedded_support.hpp"
#include "tests/http_client.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;
using testing_http::body_of;
using testing_http::http_get;
using testing_http::series_in;

std::uint16_t port_of(const std::string& url) { return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))); }

TEST(run_metrics, a_scrape_during_a_run_shows_its_step_loss_and_layers) {
  const auto j = job_of(lenet_like(), {"train.finish.steps=1000000", "eval.every=10"});
  embedded_run* run = nullptr;
  auto opened = run_metrics::open("0", *j, [&] {
    std::vector<role_published> roles;
    if (run) run->look([&](const node_host& host) { roles = host.published(); });
    return roles;
  });
  ASSERT_TRUE(opened) << opened.error().message;
  const auto metrics = std::move(*opened);
  const auto port = port_of(metrics->url());
  const std::string tasks = "troupe_role_tasks_total{job_id=\"0\",kind=\"stage\",layer=\"conv1+pool1\"}";
  const std::string reads = "troupe_weights_staleness_clocks_count{job_id=\"0\"}";
  std::string during;
  std::uint64_t scraped_at = 0;
  embedded_options o;
  o.on_event = [&](const event_effect& e) {
    metrics->event(e);
    if (!e.is<step_event>() || e.step % 20 != 0 || scraped_at > 0) return;
    during = body_of(http_get(port, "/metrics"));
    if (!(series_in(during, reads) > 0)) return;  // the roles have not published anything yet
    scraped_at = e.step;
    run->stop();
  };
  embedded_run embedded(j, std::move(o));
  run = &embedded;
  const auto result = embedded.run();
  ASSERT_TRUE(result.ok && result.stopped);
  const auto after = body_of(http_get(port, "/metrics"));
  const auto step = static_cast<double>(scraped_at);
  EXPECT_EQ(series_in(during, "troupe_job_step{job_id=\"0\"}"), step) << during;
  EXPECT_EQ(series_in(during, "troupe_job_steps_total{job_id=\"0\"}"), step);
  EXPECT_EQ(series_in(during, "troupe_job_epoch{job_id=\"0\"}"), step / 25);
  EXPECT_EQ(series_in(during, "troupe_job_state{job_id=\"0\",state=\"running\"}"), 1);
  EXPECT_GT(series_in(during, "troupe_job_loss{job_id=\"0\"}"), 0);
  EXPECT_GT(series_in(during, "troupe_job_accuracy_ratio{job_id=\"0\"}"), 0);
  EXPECT_GT(series_in(during, "troupe_job_learning_rate{job_id=\"0\"}"), 0);
  EXPECT_GT(series_in(during, "troupe_pool_held_bytes{pool=\"tensors\"}"), 0);
  EXPECT_GT(series_in(during, "troupe_gradient_bytes_total{job_id=\"0\",codec=\"none\"}"), 0);
  EXPECT_GE(series_in(during, tasks), step);
  EXPECT_EQ(series_in(after, "troupe_job_step{job_id=\"0\"}"), static_cast<double>(result.step));
  EXPECT_EQ(series_in(after, "troupe_job_state{job_id=\"0\",state=\"stopped\"}"), 1);
  EXPECT_GE(series_in(after, tasks), series_in(during, tasks)) << "totals stay when the roles have ended";
}

TEST(run_metrics, serves_only_on_loopback_addresses) {
  const auto j = job_of(lenet_like());
  const auto code = [&](const std::string& where) {
    const auto m = run_metrics::open(where, *j, {});
    return m ? "ok " + (*m)->url().substr(0, 17) : m.error().code;
  };
  EXPECT_EQ(code("0"), "ok http://127.0.0.1:");
  EXPECT_EQ(code("127.0.0.1:0"), "ok http://127.0.0.1:");
  EXPECT_EQ(code("192.0.2.1:9101"), "not_loopback");
  EXPECT_EQ(code("0.0.0.0:9101"), "not_loopback");
  for (const char* bad : {"", "x", "-1", "99999", "localhost", "127.0.0.1:", "1 2"}) EXPECT_EQ(code(bad), "bad_address") << bad;
}

}  // namespace
}  // namespace troupe
