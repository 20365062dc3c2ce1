"""How many threads torch has in processes that share a machine's cores."""

#: For the environment of each of them. Two threads reach what runs in parallel. More, or waiting in a loop, would take
#: the cores from the other processes: six times the time was measured, on two cores.
OF_A_WORKER = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
