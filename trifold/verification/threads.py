"""The number of threads that torch uses in processes that share a machine's cores."""

#: Variables for the environment of each of them. Two threads are enough to run parallel code. With more threads, or
#: with waiting in a loop, the processes slow each other down: by a factor of six, measured on two cores.
OF_A_WORKER = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
