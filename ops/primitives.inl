// Every primitive of ops/device.hpp, for devices that stand before another one: TROUPE_PRIMITIVE(name, (parameters), (names), adds), where `adds`
// says that what was in the output counts. Written by scripts/lib/derive_device.py; check.sh says when it is stale.
TROUPE_PRIMITIVE(fill, (double value, tensor& t), (value, t), false)
TROUPE_PRIMITIVE(copy, (const tensor& from, tensor& to), (from, to), false)
TROUPE_PRIMITIVE(copy_block, (const block& b, const tensor& from, tensor& to), (b, from, to), false)
TROUPE_PRIMITIVE(gather_rows, (const tensor& table, const tensor& ids, tensor& out), (table, ids, out), false)
TROUPE_PRIMITIVE(scatter_rows, (const tensor& x, const tensor& ids, tensor& table), (x, ids, table), false)
TROUPE_PRIMITIVE(to_int8, (const tensor& x, tensor& bytes), (x, bytes), false)
TROUPE_PRIMITIVE(from_int8, (const tensor& bytes, tensor& x), (bytes, x), false)
TROUPE_PRIMITIVE(resample, (const resample_geometry& g, const tensor& x, tensor& y), (g, x, y), false)
TROUPE_PRIMITIVE(resample_backward, (const resample_geometry& g, const tensor& dy, tensor& dx), (g, dy, dx), false)
TROUPE_PRIMITIVE(gemm, (const gemm_spec& s, const tensor& a, const tensor& b, tensor& c), (s, a, b, c), false)
TROUPE_PRIMITIVE(gemm_packed, (const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c), (s, a, packed, c), false)
TROUPE_PRIMITIVE(gemm_stacked, (const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c),
                 (s, packets, a, b, c), false)
TROUPE_PRIMITIVE(gemm_summed, (const gemm_spec& s, std::int64_t packets, const tensor& a, const tensor& b, tensor& c),
                 (s, packets, a, b, c), false)
TROUPE_PRIMITIVE(axpy, (double a, const tensor& x, tensor& y), (a, x, y), true)
TROUPE_PRIMITIVE(scale, (double a, tensor& x), (a, x), true)
TROUPE_PRIMITIVE(apply, (binary op, const tensor& x, const tensor& y, tensor& out), (op, x, y, out), false)
TROUPE_PRIMITIVE(add_bias, (std::int64_t outer, std::int64_t channels, std::int64_t inner, const tensor& bias, tensor& y),
                 (outer, channels, inner, bias, y), true)
TROUPE_PRIMITIVE(reduce_sum, (std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, tensor& out),
                 (outer, mid, inner, x, out), false)
TROUPE_PRIMITIVE(reduce_product,
                 (std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, const tensor& y, tensor& out),
                 (outer, mid, inner, x, y, out), false)
TROUPE_PRIMITIVE(moments,
                 (std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, tensor& mean, tensor& variance),
                 (outer, mid, inner, x, mean, variance), false)
TROUPE_PRIMITIVE(blend,
                 (std::int64_t outer, std::int64_t mid, std::int64_t inner, const tensor& x, const tensor& a, const tensor& y,
                  const tensor& b, const tensor& shift, tensor& out),
                 (outer, mid, inner, x, a, y, b, shift, out), false)
TROUPE_PRIMITIVE(sum_squares, (const tensor& x, tensor& sum), (x, sum), false)
TROUPE_PRIMITIVE(map, (unary f, double parameter, const tensor& x, tensor& y), (f, parameter, x, y), false)
TROUPE_PRIMITIVE(map_backward, (unary f, double parameter, const tensor& x, const tensor& y, const tensor& dy, tensor& dx),
                 (f, parameter, x, y, dy, dx), false)
TROUPE_PRIMITIVE(select_equal, (const tensor& x, const tensor& y, const tensor& dy, tensor& dx), (x, y, dy, dx), false)
TROUPE_PRIMITIVE(im2col, (const conv_geometry& g, std::int64_t image, std::int64_t group, const tensor& x, tensor& col),
                 (g, image, group, x, col), false)
TROUPE_PRIMITIVE(col2im, (const conv_geometry& g, std::int64_t image, std::int64_t group, const tensor& col, tensor& dx),
                 (g, image, group, col, dx), true)
TROUPE_PRIMITIVE(conv_forward, (const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y),
                 (g, x, w, bias, y), false)
TROUPE_PRIMITIVE(conv_backward_data, (const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx), (g, dy, w, dx), false)
TROUPE_PRIMITIVE(conv_backward_weights, (const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add),
                 (g, x, dy, dw, add), false)
TROUPE_PRIMITIVE(conv_backward_parameters,
                 (const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db, bool add),
                 (g, x, dy, dw, db, add), false)
TROUPE_PRIMITIVE(conv_tail_forward,
                 (const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& bias, tensor& y,
                  tensor& index),
                 (g, t, x, w, bias, y, index), false)
TROUPE_PRIMITIVE(conv_tail_backward,
                 (const conv_geometry& g, const conv_tail& t, const tensor& x, const tensor& w, const tensor& y,
                  const tensor& index, const tensor& dy, tensor& dx, tensor& dw, tensor& db),
                 (g, t, x, w, y, index, dy, dx, dw, db), false)
TROUPE_PRIMITIVE(cell_forward,
                 (const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before, tensor& c,
                  tensor& h, tensor& y),
                 (s, bias, gates, h_before, c_before, c, h, y), false)
TROUPE_PRIMITIVE(cell_backward,
                 (const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h, const tensor& c_before,
                  const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates),
                 (s, gates, h_before, h, c_before, c, dy, dh, dc, dgates), false)
TROUPE_PRIMITIVE(max_pool, (const pool_geometry& g, const tensor& x, tensor& y, tensor& index), (g, x, y, index), false)
TROUPE_PRIMITIVE(max_pool_backward, (const pool_geometry& g, const tensor& dy, const tensor& index, tensor& dx), (g, dy, index, dx),
                 false)
TROUPE_PRIMITIVE(avg_pool, (const pool_geometry& g, const tensor& x, tensor& y), (g, x, y), false)
TROUPE_PRIMITIVE(avg_pool_backward, (const pool_geometry& g, const tensor& dy, tensor& dx), (g, dy, dx), false)
TROUPE_PRIMITIVE(lrn, (const lrn_geometry& g, const tensor& x, tensor& y, tensor& scale), (g, x, y, scale), false)
TROUPE_PRIMITIVE(lrn_backward, (const lrn_geometry& g, const tensor& x, const tensor& scale, const tensor& dy, tensor& dx),
                 (g, x, scale, dy, dx), false)
TROUPE_PRIMITIVE(norm_forward,
                 (const norm_geometry& g, const tensor& x, const tensor& weight, const tensor& bias, tensor& variance,
                  tensor& table, tensor& y),
                 (g, x, weight, bias, variance, table, y), false)
TROUPE_PRIMITIVE(norm_table,
                 (const norm_geometry& g, const tensor& mean, const tensor& variance, const tensor& weight, const tensor& bias,
                  tensor& table),
                 (g, mean, variance, weight, bias, table), false)
TROUPE_PRIMITIVE(norm_apply, (const norm_geometry& g, const tensor& x, const tensor& table, tensor& y), (g, x, table, y), false)
TROUPE_PRIMITIVE(norm_sums, (const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums),
                 (g, x, table, dy, sums), false)
TROUPE_PRIMITIVE(norm_slope,
                 (const norm_geometry& g, const tensor& x, const tensor& table, const tensor& sums, double count, const tensor& dy,
                  tensor& dx),
                 (g, x, table, sums, count, dy, dx), false)
TROUPE_PRIMITIVE(norm_backward,
                 (const norm_geometry& g, const tensor& x, const tensor& table, const tensor& dy, tensor& sums, tensor& dx),
                 (g, x, table, dy, sums, dx), false)
TROUPE_PRIMITIVE(softmax, (std::int64_t outer, std::int64_t classes, std::int64_t inner, const tensor& x, tensor& y),
                 (outer, classes, inner, x, y), false)
TROUPE_PRIMITIVE(softmax_backward,
                 (std::int64_t outer, std::int64_t classes, std::int64_t inner, const tensor& y, const tensor& dy, tensor& dx),
                 (outer, classes, inner, y, dy, dx), false)
TROUPE_PRIMITIVE(pointwise_loss, (pointwise f, const tensor& x, const tensor& targets, tensor& slope, tensor& loss),
                 (f, x, targets, slope, loss), false)
TROUPE_PRIMITIVE(softmax_loss, (const tensor& x, const tensor& labels, tensor& probability, tensor& loss),
                 (x, labels, probability, loss), false)
TROUPE_PRIMITIVE(softmax_loss_backward, (const tensor& probability, const tensor& labels, const tensor& dloss, tensor& dx),
                 (probability, labels, dloss, dx), false)
TROUPE_PRIMITIVE(top_k, (std::int64_t k, const tensor& x, const tensor& labels, tensor& out), (k, x, labels, out), false)
TROUPE_PRIMITIVE(dropout, (const rng_stream& s, std::uint64_t first_example, double ratio, const tensor& x, tensor& y),
                 (s, first_example, ratio, x, y), false)
TROUPE_PRIMITIVE(sample, (draw d, const rng_stream& s, std::uint64_t first_example, const tensor& x, tensor& y),
                 (d, s, first_example, x, y), false)
TROUPE_PRIMITIVE(fill_uniform, (const rng_stream& s, double low, double high, tensor& t), (s, low, high, t), false)
TROUPE_PRIMITIVE(fill_gaussian, (const rng_stream& s, double mean, double deviation, tensor& t), (s, mean, deviation, t), false)
TROUPE_PRIMITIVE(sgd_update, (const sgd_spec& s, const tensor& w, const tensor& g, const tensor& v, tensor& w_out, tensor& v_out),
                 (s, w, g, v, w_out, v_out), false)
TROUPE_PRIMITIVE(adaptive_update,
                 (const adaptive_spec& s, const tensor& w, const tensor& g, const tensors& states, tensor& w_out,
                  tensors& states_out),
                 (s, w, g, states, w_out, states_out), false)
