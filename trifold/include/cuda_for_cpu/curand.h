// CUDA's header of this name, for g++. cuRAND's host API is not available on the CPU, but programs that use its device
// API include this header, too.
#pragma once
