/* The peer of bench/collectives.py: MPI_Allreduce of floats with each of the given counts. Rank 0 prints "COUNT SECONDS" for every call but the first two. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int a = 2; a < argc; ++a) {
    const long count = atol(argv[a]), calls = atol(argv[1]);
    float* values = malloc(count * sizeof *values);
    for (long k = 0; k < count; ++k) values[k] = (float)(k % 7);
    for (long i = 0; i < calls + 2; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double t = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      const double mine = MPI_Wtime() - t;
      double slowest = 0;
      MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      for (long k = 0; k < count; ++k) values[k] = (float)(k % 7);
      if (rank == 0 && i >= 2) printf("%ld %.9f\n", count, slowest);
    }
    free(values);
  }
  MPI_Finalize();
  return 0;
}
