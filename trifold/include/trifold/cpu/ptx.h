// PTX's instructions, as functions to which inline asm is translated (trifold/build/inline_ptx.py).
//
// An instruction `op.mods.type d, a, b` is op_<type, modifier::mods_…>(d, a, b). trifold/build/ptx_table.py lists the
// forms; others are refused. To add one, add a row there and a function here. Semantics are those of the PTX ISA 9.0,
// "Instruction Set"; where it leaves a result open, that of current GPUs.
#pragma once

#include <trifold/cpu/ptx/bits.h>
#include <trifold/cpu/ptx/conversions.h>
#include <trifold/cpu/ptx/copies.h>
#include <trifold/cpu/ptx/floats.h>
#include <trifold/cpu/ptx/integers.h>
#include <trifold/cpu/ptx/matrices.h>
#include <trifold/cpu/ptx/mbarriers.h>
#include <trifold/cpu/ptx/memory.h>
#include <trifold/cpu/ptx/registers.h>
#include <trifold/cpu/ptx/tensors.h>
#include <trifold/cpu/ptx/threads.h>
