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
}
