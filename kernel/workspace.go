package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// workspaces is memory in which calls of a kernel compute, besides their operands. There is a workspace for
// each thread, and a call takes a free one.
type workspaces struct {
	memory *tensor.Matrix // threads × Int32 numbers
	bytes  C.int64_t      // the size of a workspace
}

// workspaces takes workspaces of so many bytes each.
func (t *Team) workspaces(bytes C.int64_t) workspaces {
	const number = 4
	r := workspaces{t.scratch(tensor.Int32, t.threads, int(C.WEFT_LINE+bytes)/number), bytes}
	args := &C.weft_fill_args{p: (*C.elem)(r.memory.Pointer())} // marks all as free
	t.backend.run(launch{
		links: oneKernel(on(C.weft_fill), unsafe.Pointer(args)), last: t.threads * C.WEFT_LINE / number, cost: 1,
	})
	return r
}

func (r workspaces) c() C.weft_workspaces {
	if r.memory == nil {
		return C.weft_workspaces{}
	}
	return C.weft_workspaces{
		first: (*C.char)(r.memory.Pointer()), bytes: r.bytes, count: C.int32_t(r.memory.Rows),
	}
}

func (r workspaces) release() { r.memory.Release() }
