"""What compute-sanitizer prints: the forms that version 2025.3 printed on an H200, the older form of a place, and of
2026.4 those that its manual shows."""

MEMCHECK = """\
========= COMPUTE-SANITIZER
result 3.5
========= Invalid __global__ write of size 4 bytes
=========     at void ns::scale<float>(const T1 *, T1 *, int)+0x70 in /src/scale.cu:25
=========     by thread (232,0,0) in block (3,0,0)
=========     Access to 0x7f5c92600fa0 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f5c92600000 of size 4,000 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at void ns::scale<float>(const T1 *, T1 *, int)+0x70 in /src/scale.cu:25
=========     by thread (233,0,0) in block (3,0,0)
=========     Access to 0x7f5c92600fa4 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f5c92600000 of size 4,000 bytes
=========
========= Invalid __shared__ read of size 16 bytes
=========     at load(float4 *)+0xb0 in /src/scale.cuh:9
=========     by thread (0,1,0) in block (0,0,2)
=========     Access to 0x4 is misaligned
=========         Device Frame: outer(float4 *)+0x30 in /src/scale.cuh:44
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "no" on CUDA API call to cudaMemcpy.
=========
========= Target application returned an error
========= ERROR SUMMARY: 4 errors
"""

OLD_MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __local__ read of size 4 bytes
=========     at 0x578 in /src/task.cu:120:MatMul(Matrix, Matrix)
=========     by thread (7,0,0) in block (0,0,0)
=========     Address 0xfffcc8 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame:cuLaunchKernel [0x7d53cc] in libcuda.so.1
=========
========= ERROR SUMMARY: 1 error
"""

RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Potential RAW hazard detected at __shared__ 0x8c in block (0,0,0) :
=========     Write Thread (35,0,0) at sums(int *, int *)+0x90 in /src/sums.cu:44
=========     Read Thread (0,0,0) at sums(int *, int *)+0x120 in /src/sums.cu:56
=========     Current Value : 35
=========
========= Error: Potential RAW hazard detected at __shared__ 0x8d in block (0,0,0) :
=========     Write Thread (35,0,0) at sums(int *, int *)+0x90 in /src/sums.cu:44
=========     Read Thread (0,0,0) at sums(int *, int *)+0x120 in /src/sums.cu:56
=========     Current Value : 0
=========
========= Warning: (Warp Level Programming) Potential WAR hazard detected at __shared__ 0x10 in block (1,0,0) :
=========     Read Thread (3,0,0) at sums(int *, int *)+0x120 in /src/sums.cu:60
=========     Write Thread (4,0,0) at sums(int *, int *)+0x140 in /src/sums.cu:61
=========     Current Value : 35, Incoming Value : 3
=========
========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)
"""

RACECHECK_ANALYSIS = """\
========= COMPUTE-SANITIZER
========= Error: Potential RAW hazard detected at __shared__ 0x8c in block (0,0,0) :
=========     Write Thread (35,0,0) at sums(int *, int *)+0x90 in /src/sums.cu:44
=========     Read Thread (0,0,0) at sums(int *, int *)+0x120 in /src/sums.cu:56
=========     Current Value : 35
=========
========= Error: Race reported between Write access at sums(int *, int *)+0x90 in /src/sums.cu:44
=========     and Read access at sums(int *, int *)+0x120 in /src/sums.cu:56 [508 hazards]
=========     and Write access at sums(int *, int *)+0x190 in /src/sums.cu:61 [1,016 hazards]
=========
========= WARNING: Race reported between Read access at last(int *)+0x20 in /src/sums.cu:70
=========     and Write access at last(int *)+0x30 in /src/sums.cu:71 [1 hazard]
=========
========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)
"""

CLUSTER = """\
========= COMPUTE-SANITIZER
========= Potential invalid __shared__ read of size 4 bytes
=========     at remote(int *, int)+0x170 in /src/cluster.cu:10
=========     by thread (0,0,0) in block (1,0,0)
=========     Address 0x1000400 is located in a block that might have already exited
=========
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
"""

INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at add_one(int *)+0x70 in /src/add.cu:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 1 error
"""

SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at wait_here(int *)+0x11f0 in /src/wait.cu:42
=========     by thread (32,0,0) in block (0,0,0)
=========         Device Frame: wait(int *)+0xe40 in /src/wait.cu:60
=========
========= Barrier error detected. Invalid arguments
=========     at __cuda_sm70_warpsync+0x30
=========     by thread (16,0,0) in block (0,0,0)
=========     Device Frame:__syncwarp(unsigned int)+0xf0 in /cuda/sm_30_intrinsics.hpp:110
=========     Device Frame:wait(int *)+0x3c0 in /src/wait.cu:48
=========
========= ERROR SUMMARY: 2 errors
"""

CLEAN = """\
========= COMPUTE-SANITIZER
========= ERROR SUMMARY: 0 errors
"""

NO_CUDA = """\
========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
========= Tracking kernels launched by child processes requires the --target-processes all option.
========= Error: couldn't find exit code.
"""

FAILED_CALL = """\
========= COMPUTE-SANITIZER
========= Program hit cudaErrorUnknown (error 999) due to "no" on CUDA API call to cudaLaunchKernel.
=========
========= ERROR SUMMARY: 1 error
"""

TRAP = """\
========= COMPUTE-SANITIZER
========= Trace/breakpoint trap
=========     at nowhere(const float *)+0x80 in /src/nowhere.cu:230
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Trace/breakpoint trap
=========     at nowhere(const float *)+0x80 in /src/nowhere.cu:230
=========     by thread (1,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""
