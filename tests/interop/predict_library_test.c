/* A program in C99 that predicts: reads floats from a file and prints the outputs. usage: predict_library_test NET FILE COUNT f32|u8 THREADS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "troupe_predict.h"

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, troupe_predict_error_text());
  return 1;
}

int main(int argc, char** argv) {
  troupe_predict_options options;
  troupe_predict_info info;
  troupe_predict_net* net = NULL;
  const int bytes = argc > 4 && strcmp(argv[4], "u8") == 0;
  int64_t count, i, k;
  void* examples;
  float* outputs;
  FILE* file;
  if (argc != 6) return 2;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.threads = (unsigned)atoi(argv[5]);
  if (troupe_predict_open(argv[1], &options, &net) != TROUPE_PREDICT_OK) return fail("open");
  info.struct_size = sizeof info;
  if (troupe_predict_describe(net, &info) != TROUPE_PREDICT_OK) return fail("describe");
  count = atoi(argv[3]);
  examples = malloc((size_t)(count * info.example_values) * (bytes ? 1 : sizeof(float)));
  outputs = malloc((size_t)(count * info.positions * info.width) * sizeof(float));
  file = fopen(argv[2], "rb");
  if (!file || fread(examples, bytes ? 1 : sizeof(float), (size_t)(count * info.example_values), file) != (size_t)(count * info.example_values)) return 2;
  fclose(file);
  if (troupe_predict_probabilities(net, examples, bytes ? TROUPE_PREDICT_UINT8 : TROUPE_PREDICT_FLOAT32, count, outputs) != TROUPE_PREDICT_OK)
    return fail("run");
  for (i = 0; i < count; ++i)
    for (k = 0; k < info.width; ++k) printf("%.9g%c", outputs[i * info.width + k], k + 1 < info.width ? ' ' : '\n');
  if (troupe_predict_channel_order(net) != TROUPE_PREDICT_RGB || troupe_predict_channel_order(NULL) != TROUPE_PREDICT_RGB) return 3;
  /* Mistakes are codes with a text, and do not crash. */
  if (troupe_predict_run(net, examples, 7, count, outputs) != TROUPE_PREDICT_BAD_ARGUMENT) return 3;
  if (troupe_predict_run(NULL, examples, 0, count, outputs) != TROUPE_PREDICT_BAD_ARGUMENT) return 3;
  if (troupe_predict_run(net, examples, 0, -1, outputs) != TROUPE_PREDICT_BAD_ARGUMENT || !*troupe_predict_error_text()) return 3;
  if (troupe_predict_run(net, NULL, 0, 0, NULL) != TROUPE_PREDICT_OK) return 3;
  if (troupe_predict_class_name(net, -1) || troupe_predict_class_name(NULL, 0)) return 3;
  troupe_predict_close(net);
  troupe_predict_close(NULL);
  free(examples);
  free(outputs);
  if (troupe_predict_open("/nowhere", NULL, &net) != TROUPE_PREDICT_BAD_FILE || net) return 3;
  return 0;
}
