// Package metis divides graphs by the METIS library (Karypis and Kumar, "A Fast and High Quality Multilevel
// Scheme for Partitioning Irregular Graphs", SIAM J. Sci. Comput. 20(1), 1998): k-way partitioning that
// minimises the weight of cut edges.
//
// METIS takes over signals while it runs and aborts the process on some inputs. It therefore runs in a child
// process, which is this program once more. A program says by Child that it may be started so; one that does
// not gets an error from Solve. The arrays lie in memory that both processes share.
package metis

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
	// VertexWeights are V rows of Weights.Vertex weights. The partitions divide each evenly. nil: they divide
	// the vertices evenly.
	VertexWeights []int32

	header *header
	part   []int32 // the result
	words  []byte
	memory *os.File
}

// header is at the beginning of the shared memory.
type header struct {
	Vertices, Entries int32
	EdgeWeights       int32 // 1: there are edge weights after the neighbours
	VertexWeights     int32 // of each vertex
	Parts, Seed       int32
	Status            int32 // METIS's return value; 0 before it returns
}

const headerWords = int(unsafe.Sizeof(header{}) / 4)

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
	h := header{Vertices: int32(vertices), Entries: int32(entries), VertexWeights: int32(w.Vertex)}
	if w.Edges {
		h.EdgeWeights = 1
	}
	fd, err := unix.MemfdCreate("metis", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for METIS: %w", err)
	}
	p := &Problem{memory: os.NewFile(uintptr(fd), "metis")}
	if err = p.memory.Truncate(4 * h.words()); err == nil {
		err = p.mapped(&h)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%d bytes of memory for METIS: %w", 4*h.words(), err), p.Close())
	}
	return p, nil
}

// words returns the length of the shared memory, in units of 4 bytes.
func (h *header) words() int64 {
	return int64(headerWords) + int64(h.Vertices) + 1 + int64(h.Entries)*int64(1+h.EdgeWeights) +
		int64(h.Vertices)*int64(h.VertexWeights+1)
}

// mapped maps the memory and places the arrays in it, as h says.
func (p *Problem) mapped(h *header) (err error) {
	p.words, err = unix.Mmap(int(p.memory.Fd()), 0, int(4*h.words()),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	p.header = (*header)(unsafe.Pointer(unsafe.SliceData(p.words)))
	*p.header = *h
	rest := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(p.words))), h.words())[headerWords:]
	take := func(n int32) []int32 {
		taken := rest[:n:n]
		rest = rest[n:]
		return taken
	}
	p.Indptr, p.Neighbours = take(h.Vertices+1), take(h.Entries)
	if h.EdgeWeights == 1 {
		p.EdgeWeights = take(h.Entries)
	}
	if h.VertexWeights > 0 {
		p.VertexWeights = take(h.Vertices * h.VertexWeights)
	}
	p.part = take(h.Vertices)
	return nil
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

// ErrNoChild is the error of Solve in a program that does not call Child.
var ErrNoChild = errors.New("METIS runs in a child process, which is this program once more: " +
	"call Child of weft/partition/metis first in main, or divide by range or random")

// Solve returns the partition, 0…parts−1, of each vertex. The same problem and seed give the same result. It
// needs at least two partitions, and at most one for each vertex. Some may be empty; many are empty if there
// are only a few vertices for each. METIS may work for any time. If it is idle for the timeout, as a stopped
// process is, Solve kills it and returns an error; 0 sets no limit. When ctx ends, Solve kills METIS too.
func (p *Problem) Solve(ctx context.Context, parts int, seed uint64, timeout time.Duration) ([]int32, error) {
	if parts < 2 || parts > int(p.header.Vertices) {
		return nil, fmt.Errorf("METIS makes between 2 partitions and one for each of %d vertices, not %d",
			p.header.Vertices, parts)
	}
	if !able {
		return nil, ErrNoChild
	}
	p.header.Parts, p.header.Status = int32(parts), 0
	p.header.Seed = int32((seed ^ seed>>32) & math.MaxInt32)
	said, err := p.run(ctx, timeout)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil || p.header.Status != statusOK:
		return nil, failure(err, p.header.Status, said)
	}
	return slices.Clone(p.part), nil
}

// run runs the child and returns its output.
func (p *Problem) run(ctx context.Context, timeout time.Duration) (said string, err error) {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	// The kernel kills the child when this thread ends, as it does at the end of this process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Do not use its name: the file may have been replaced since this process started.
	child := exec.CommandContext(ctx, "/proc/self/exe")
	child.Args = []string{"weft-metis"} // the name in ps
	child.Env = append(os.Environ(), runVariable+"=1")
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
func failure(err error, status int32, said string) error {
	how := "it returned an error"
	switch {
	case status == statusMemory:
		how = "there is too little memory"
	case status == 0 && err != nil:
		how = err.Error()
	}
	if words := strings.Join(strings.Fields(said), " "); words != "" {
		const enough = 300
		how += " (" + words[:min(len(words), enough)] + ")"
	}
	return fmt.Errorf("METIS failed: %s", how)
}
