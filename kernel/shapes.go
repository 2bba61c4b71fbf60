package kernel

// #include "native/weft.h"
import "C"

import "unsafe"

// shape is how a launch is cut into threads of a device.
type shape struct {
	variant string // of the kernel, where it has several
	threads int    // in all; the last block may have more
	block   int    // threads of one
}

// shapeTable has by kernel what gives the shape. One of no threads says that the device's kernel does not do
// what the arguments ask for.
type shapeTable map[C.int]func(args unsafe.Pointer, of C.enum_weft_type, n int) shape

// shapes are those of the kernels that devices have, for the arguments and a number of rows (or tiles, elements,
// columns). Over segments a kernel has as many threads for each.
var shapes = shapeTable{
	C.weft_fill: func(_ unsafe.Pointer, _ C.enum_weft_type, n int) shape { return shape{"", n, 256} },
	C.weft_spmm: spmmShape,
}

// vectors is how many elements a thread takes at once, 16 bytes of them or one, of rows of so many that have so
// many between them and begin at these addresses.
func vectors(of C.enum_weft_type, cols, stride C.int64_t, at ...unsafe.Pointer) int {
	n := 4
	if of == C.WEFT_BFLOAT16 {
		n = 8
	}
	whole := (cols|stride)%C.int64_t(n) == 0
	for _, p := range at {
		whole = whole && uintptr(p)%16 == 0
	}
	if !whole {
		return 1
	}
	return n
}

// spmmShape has no threads for a part of x, which a device never cuts (Uncut).
func spmmShape(args unsafe.Pointer, of C.enum_weft_type, n int) shape {
	a := (*C.weft_spmm_args)(args)
	if a.cut != 0 || a.extend != 0 || a.sums != nil {
		return shape{}
	}
	variant, width := "", vectors(of, a.cols, a.x_stride|a.z_stride|a.from, a.z, unsafe.Pointer(a.x), unsafe.Pointer(a.own))
	if width > 1 {
		variant = "vector"
	}
	return shape{variant, n * int(a.cols) / width, 256}
}
