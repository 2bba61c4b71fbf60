// Package metis divides graphs by the METIS library (Karypis and Kumar, "A Fast and High Quality Multilevel
// Scheme for Partitioning Irregular Graphs", SIAM J. Sci. Comput. 20(1), 1998): k-way partitioning that
// minimises the weight of cut edges.
//
// METIS takes over signals while it runs and aborts the process on some inputs. It therefore runs in a child
// process: this program once more, which ends before Go's runtime begins. The arrays lie in memory that both
// processes share.
//
// Package partition calls it, and package stream for the small graph that is left.
package metis

// #cgo LDFLAGS: -lmetis
// #include <metis.h>
// #include "child.h"
import "C"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxEntries is the largest count of METIS with 32-bit indices: of adjacency entries, and of sums of weights.
const MaxEntries = math.MaxInt32

// Problem is an undirected graph without self loops, in METIS's format: each edge is in the lists of both its
// ends. Its arrays are in shared memory until Close. They are zero at first.
type Problem struct {
	Indptr      []int32 // len V+1: the neighbours of v are Neighbours[Indptr[v]:Indptr[v+1]]
	Neighbours  []int32
	EdgeWeights []int32 // one per entry of Neighbours, equal in both directions; nil: all are 1
	// VertexWeights are V rows of Weights.Vertex weights. The partitions divide each weight evenly. nil: they
	// divide the vertices evenly.
	VertexWeights []int32

	shared *C.struct_problem
	part   []int32 // the result
	words  []byte
	memory *os.File
}

// Weights say which weights a problem has.
type Weights struct {
	Edges  bool // EdgeWeights
	Vertex int  // how many VertexWeights each vertex has
}

// New makes a problem with the given numbers of vertices and entries of Neighbours.
func New(vertices, entries int, w Weights) (*Problem, error) {
	if vertices < 0 || entries < 0 || w.Vertex < 0 || vertices > MaxEntries/max(w.Vertex, 1) ||
		entries > MaxEntries {
		return nil, fmt.Errorf("METIS cannot hold %d vertices of %d weights and %d entries",
			vertices, w.Vertex, entries)
	}
	c := C.struct_problem{vertices: C.int32_t(vertices), constraints: C.int32_t(max(w.Vertex, 1))}
	c.words = C.int64_t((unsafe.Sizeof(c) + 3) / 4)
	place := func(array *C.int64_t, length int) {
		*array = c.words
		c.words += C.int64_t(length)
	}
	place(&c.indptr, vertices+1)
	place(&c.neighbours, entries)
	if w.Edges {
		place(&c.edge_weights, entries)
	}
	if w.Vertex > 0 {
		place(&c.vertex_weights, vertices*w.Vertex)
	}
	place(&c.part, vertices)
	fd, err := unix.MemfdCreate("metis", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for METIS: %w", err)
	}
	p := &Problem{memory: os.NewFile(uintptr(fd), "metis")}
	if err = p.memory.Truncate(4 * int64(c.words)); err == nil {
		p.words, err = unix.Mmap(fd, 0, 4*int(c.words), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%d bytes of memory for METIS: %w", 4*c.words, err), p.Close())
	}
	p.shared = (*C.struct_problem)(unsafe.Pointer(unsafe.SliceData(p.words)))
	*p.shared = c
	array := func(at C.int64_t, length int) []int32 {
		if at == 0 {
			return nil
		}
		return unsafe.Slice((*int32)(unsafe.Pointer(&p.words[0])), c.words)[at:][:length:length]
	}
	p.Indptr, p.Neighbours = array(c.indptr, vertices+1), array(c.neighbours, entries)
	p.EdgeWeights = array(c.edge_weights, entries)
	p.VertexWeights = array(c.vertex_weights, vertices*w.Vertex)
	p.part = array(c.part, vertices)
	return p, nil
}

// Close releases the memory. The arrays must not be used afterwards.
func (p *Problem) Close() error {
	var err error
	if p.words != nil {
		err = unix.Munmap(p.words)
		p.words = nil
	}
	return errors.Join(err, p.memory.Close())
}

// Solve returns the partition, 0…parts−1, of each vertex. The same problem and seed give the same result. It
// needs at least two partitions, and at most one for each vertex. Some may be empty; many are empty if there
// are only a few vertices for each. METIS may work for any time. If it is idle for the timeout, as a stopped
// process is, Solve kills it and returns an error; 0 sets no limit. When ctx ends, Solve kills METIS too.
func (p *Problem) Solve(ctx context.Context, parts int, seed uint64, timeout time.Duration) ([]int32, error) {
	if parts < 2 || parts > len(p.part) {
		return nil, fmt.Errorf("METIS makes between 2 partitions and one for each of %d vertices, not %d",
			len(p.part), parts)
	}
	p.shared.parts, p.shared.status = C.int32_t(parts), 0
	p.shared.seed = C.int32_t((seed ^ seed>>32) & math.MaxInt32)
	output, err := p.run(ctx, timeout)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil || p.shared.status != C.METIS_OK:
		return nil, failure(err, int32(p.shared.status), output)
	}
	return slices.Clone(p.part), nil
}

// program is this one. Its name is not used: the file may have been replaced since this process started.
var program = "/proc/self/exe"

// run runs the child and returns its output.
func (p *Problem) run(ctx context.Context, timeout time.Duration) (output string, err error) {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	// The kernel kills the child when this thread ends, as it does at the end of this process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child := exec.CommandContext(ctx, program)
	child.Args = []string{"weft-metis"} // child.c knows the child by this name and the variable
	child.Env = append(os.Environ(), "WEFT_RUN_METIS=1")
	child.ExtraFiles = []*os.File{p.memory}
	// A process group of its own: this process alone handles an interrupt from the terminal.
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var printed bytes.Buffer
	child.Stdout, child.Stderr = &printed, &printed
	if err := child.Start(); err != nil {
		return "", err
	}
	if timeout > 0 {
		go func() {
			if err := watch(ctx, child.Process.Pid, timeout); err != nil {
				kill(err)
			}
		}()
	}
	err = child.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return printed.String(), err
}

// failure returns an error of one line that says how METIS failed.
func failure(err error, status int32, output string) error {
	how := "it returned an error"
	switch {
	case status == C.METIS_ERROR_MEMORY:
		how = "there is too little memory"
	case status == 0 && err != nil:
		how = err.Error()
	}
	if words := strings.Join(strings.Fields(output), " "); words != "" {
		const enough = 300
		how += " (" + words[:min(len(words), enough)] + ")"
	}
	return fmt.Errorf("METIS failed: %s", how)
}
