package kernel

// #include "native/weft.h"
import "C"

import "weft/tensor"

// rooms is the memory that calls of a kernel compute in besides their operands: a room for each thread, of
// which a call takes a free one.
type rooms struct {
	memory *tensor.Matrix // threads × Int32 numbers
}

// rooms takes rooms of so many bytes each.
func (t *Team) rooms(bytes C.int64_t) rooms {
	const number = 4
	r := rooms{t.scratch(tensor.Int32, t.threads, int(C.WEFT_LINE+bytes)/number)}
	t.Host(func() {
		for k := range t.threads {
			r.memory.RowRange(k, k+1).Int32s()[0] = 0 // nobody is in it
		}
	})
	return r
}

func (r rooms) c() C.weft_rooms {
	if r.memory == nil {
		return C.weft_rooms{}
	}
	return C.weft_rooms{
		first: (*C.char)(r.memory.Pointer()), bytes: C.int64_t(r.memory.Cols * r.memory.Element.Size()),
		count: C.int32_t(r.memory.Rows),
	}
}

func (r rooms) release() { r.memory.Release() }
