// CUDA's header of this name, for g++: cuRAND's host API is not there on the CPU, but programs for the device include
// this, too.
#pragma once
