/* libtroupe_predict: predictions of a trained net from C. A net file (.troupe, made by `troupe export JOB --weights FILE --out
   NET.troupe`) has all that it needs. C99; docs/predict.md shows the use.

   Calls      return 0 or a code below; troupe_predict_error_text() then has the text, for the calling thread. On an error
              the outputs are undefined.
   Threads    A net may be used by several threads: their calls run one after another. Several nets are independent. A net
              has the threads of its options, with the caller's. The library sets OpenBLAS to one thread for the process.
   Fork       A net belongs to the process that opened it.
   Results    Equal calls give equal bits. Another number of threads, or of examples in a call, may change the rounding of an
              output, because OpenBLAS chooses its kernels by the size of a matrix. */
#ifndef TROUPE_PREDICT_H
#define TROUPE_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct troupe_predict_net troupe_predict_net;

enum {
  TROUPE_PREDICT_OK = 0,
  TROUPE_PREDICT_BAD_ARGUMENT = 1, /* a null pointer, a type or a number out of range */
  TROUPE_PREDICT_BAD_FILE = 2,     /* no net file, a damaged one, or one with layers that this library lacks */
  TROUPE_PREDICT_FAILED = 3        /* the net could not be computed; out of memory */
};

enum {
  TROUPE_PREDICT_FLOAT32 = 0, /* values as the source of the job delivers them, after its scaling */
  TROUPE_PREDICT_UINT8 = 1    /* bytes as in the files of the source, which are scaled as in training */
};

/* The order of the planes of colour pictures, examples [3][height][width]. */
enum {
  TROUPE_PREDICT_RGB = 0, /* red, green, blue; also of nets that take no pictures */
  TROUPE_PREDICT_BGR = 1  /* blue, green, red, as in Caffe and OpenCV */
};

/* What the outputs of a net mean. */
enum {
  TROUPE_PREDICT_SOFTMAX = 0, /* scores of classes; their softmax are the probabilities */
  TROUPE_PREDICT_SIGMOID = 1, /* scores; their sigmoids are the probabilities */
  TROUPE_PREDICT_SCORES = 2,  /* scores without probabilities */
  TROUPE_PREDICT_VALUES = 3   /* numbers */
};

typedef struct {
  size_t struct_size;  /* sizeof(troupe_predict_options) */
  unsigned threads;    /* 0: 1 */
  const char* layer;   /* the layer whose first output to compute; NULL: the job's prediction */
} troupe_predict_options;

typedef struct {
  size_t struct_size;       /* sizeof(troupe_predict_info), set by the caller */
  int32_t rank;             /* of an example */
  int64_t extents[6];       /* of an example, outermost first */
  int64_t example_values;   /* their product */
  int64_t positions, width; /* outputs of an example: [positions][width]; positions is 1 but for sequences */
  int64_t classes;          /* 0: the outputs are numbers */
  int32_t meaning;          /* TROUPE_PREDICT_SOFTMAX, ... */
} troupe_predict_info;

/* Opens a net file. `options` may be NULL. */
int troupe_predict_open(const char* file, const troupe_predict_options* options, troupe_predict_net** net);
void troupe_predict_close(troupe_predict_net* net); /* net may be NULL */

int troupe_predict_describe(const troupe_predict_net* net, troupe_predict_info* info);
/* TROUPE_PREDICT_RGB or TROUPE_PREDICT_BGR; RGB if net is NULL. */
int troupe_predict_channel_order(const troupe_predict_net* net);
/* The name of a class; NULL: it has none. Valid until the net is closed. */
const char* troupe_predict_class_name(const troupe_predict_net* net, int64_t class_number);

/* Computes `count` examples of `type`, one after the other. `outputs`: count * positions * width floats. */
int troupe_predict_run(troupe_predict_net* net, const void* examples, int32_t type, int64_t count, float* outputs);
/* The same, and then softmax or sigmoid: probabilities. An error if the net's outputs have none. */
int troupe_predict_probabilities(troupe_predict_net* net, const void* examples, int32_t type, int64_t count, float* outputs);

/* The text of the last error of this thread; "" if there was none. Valid until its next call. */
const char* troupe_predict_error_text(void);

#ifdef __cplusplus
}
#endif
#endif
