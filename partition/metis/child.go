package metis

// #cgo LDFLAGS: -lmetis
// #include <metis.h>
// #if IDXTYPEWIDTH != 32
// #error "weft is built with a METIS of 32-bit indices, as Debian has it"
// #endif
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runVariable in the environment makes Child run METIS on the memory shared by its parent.
const runVariable = "WEFT_RUN_METIS"

// memoryDescriptor is the child's descriptor of the memory: the first file after the standard ones.
const memoryDescriptor = 3

const (
	statusOK     = int32(C.METIS_OK)
	statusMemory = int32(C.METIS_ERROR_MEMORY)
)

// able says that the program calls Child.
var able bool

// Child makes the program able to call Solve. In the child process that Solve starts, which is the same
// program, it runs METIS and ends the process. So a program calls it before all else in main, and a test in
// TestMain.
func Child() {
	able = true
	if os.Getenv(runVariable) == "" {
		return
	}
	if err := solveShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// solveShared runs METIS on the shared memory.
func solveShared() error {
	// METIS aborts on some inputs: leave no core file.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	memory := os.NewFile(memoryDescriptor, "metis")
	var h header
	if _, err := memory.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)), 0); err != nil {
		return fmt.Errorf("%s is set, but no graph came with it: %w", runVariable, err)
	}
	p := &Problem{memory: memory}
	if err := p.mapped(&h); err != nil {
		return err
	}
	p.header.Status = p.partition()
	return p.Close()
}

// partition calls METIS on the arrays and returns its status.
func (p *Problem) partition() int32 {
	var options [C.METIS_NOPTIONS]C.idx_t
	C.METIS_SetDefaultOptions(&options[0])
	options[C.METIS_OPTION_SEED] = C.idx_t(p.header.Seed)
	vertices, constraints, parts, cut := C.idx_t(p.header.Vertices), C.idx_t(max(p.header.VertexWeights, 1)),
		C.idx_t(p.header.Parts), C.idx_t(0)
	return int32(C.METIS_PartGraphKway(&vertices, &constraints, indices(p.Indptr), indices(p.Neighbours),
		indices(p.VertexWeights), nil,
		indices(p.EdgeWeights), &parts, nil, nil, &options[0], &cut, indices(p.part)))
}

// indices returns the array for C; a nil array is NULL.
func indices(v []int32) *C.idx_t { return (*C.idx_t)(unsafe.SliceData(v)) }
