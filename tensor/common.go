package tensor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Common is memory that several workers of a machine share. Their Meters make the same matrices in it, in the
// same order (NewCommon). One worker writes the elements, and its Meter charges them. Other processes map the
// memory read-only.
type Common struct {
	// in memory, without a name; nil: the system refused it, and no other process can map the memory
	file *os.File
	ours bool // this process made it

	mu     sync.Mutex
	users  int            // Meters of this process that have not closed it
	mapped map[int64]span // by offset in the file
}

// commonName is the name under which the system lists the files.
const commonName = "weft"

// commons are the Commons that this process made, by Path. It maps their matrices once for all its workers.
var commons sync.Map

// NewCommon returns memory without matrices, for the worker that writes. Others open it by OpenCommon.
func NewCommon() *Common {
	c := &Common{ours: true, users: 1, mapped: map[int64]span{}}
	if fd, err := unix.MemfdCreate(commonName, unix.MFD_CLOEXEC); err == nil {
		c.file = os.NewFile(uintptr(fd), commonName)
	}
	commons.Store(c.Path(), c)
	return c
}

// Path returns the path by which other processes of the machine open the memory.
func (c *Common) Path() string {
	if c.file == nil {
		return fmt.Sprintf("%p", c)
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), c.file.Fd())
}

// OpenCommon opens the memory that another worker made, by its Path.
func OpenCommon(path string) (*Common, error) {
	if own, found := commons.Load(path); found {
		c := own.(*Common)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.users++
		return c, nil
	}
	name, err := os.Readlink(path)
	if err == nil && !strings.HasPrefix(name, "/memfd:"+commonName) {
		err = errors.New("the worker has ended")
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("memory of another worker of this machine: %w", err)
	}
	return &Common{file: f, users: 1, mapped: map[int64]span{}}, nil
}

// memory returns size bytes from an offset on. Other processes must wait until the process that made the file
// has asked for them.
func (c *Common) memory(offset int64, size int) (unsafe.Pointer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, found := c.mapped[offset]; found {
		return s.start, nil
	}
	fd, from, protection, flags := -1, int64(0), unix.PROT_READ, unix.MAP_SHARED
	if c.ours {
		protection |= unix.PROT_WRITE
	}
	if c.file == nil {
		flags |= unix.MAP_ANONYMOUS
	} else {
		fd = int(c.file.Fd())
		from = offset
		if c.ours {
			if err := c.file.Truncate(offset + int64(size)); err != nil {
				return nil, err
			}
		}
	}
	p, err := unix.MmapPtr(fd, from, nil, uintptr(size), protection, flags)
	if err == nil {
		c.mapped[offset] = span{p, size}
	}
	return p, err
}

// Close ends one use, which NewCommon or OpenCommon began. The last Close of the process gives the memory
// back.
func (c *Common) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if c.users > 0 {
		return
	}
	if c.ours {
		commons.Delete(c.Path())
	}
	for _, s := range c.mapped {
		unmap(s.start, s.size)
	}
	if c.file == nil {
		return
	}
	if err := c.file.Close(); err != nil {
		panic(fmt.Sprintf("tensor: close: %v", err))
	}
}

// sharing is a Meter's use of a Common.
type sharing struct {
	with   *Common // nil: a plan
	others bool    // another worker writes, and is charged
	offset int64   // of the next matrix
}

// Share makes NewCommon take memory from c; nil in a plan. The Meter's Close closes c. others says that
// another worker writes the elements. A Meter shares with one group of workers.
func (t *Meter) Share(c *Common, others bool) { t.sharing = &sharing{with: c, others: others} }

// Shares reports whether Share was called.
func (t *Meter) Shares() bool { return t.sharing != nil }

// Writes reports whether this worker writes the elements of matrices of NewCommon.
func (t *Meter) Writes() bool { return t.sharing == nil || !t.sharing.others }

// NewCommon makes a matrix, of which the workers that Share a Common have one copy. All of them make the same
// matrices, in the same order. A Meter that does not share makes a matrix of its own. A shared matrix lives
// until Close: Release does nothing.
func (t *Meter) NewCommon(kind Kind, element Element, rows, cols int) *Matrix {
	s := t.sharing
	if s == nil {
		return t.NewElement(kind, element, rows, cols)
	}
	size := pages(rows * cols * element.Size())
	m := &Matrix{
		Rows: rows, Cols: cols, Element: element, planned: s.with == nil, others: s.others, kind: kind,
		bytes: size,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Writes() {
		t.freeIdle(int64(size))
		t.live[kind] += int64(size)
		t.trimSpares()
		t.raise()
		t.tell(0)
	}
	if s.with == nil {
		m.data = acquire(size)
		t.used[m.data] = charge{size, m.kind}
		forbidWrites(m.data, size)
		return m
	}
	var err error
	if m.data, err = s.with.memory(s.offset, size); err != nil {
		panic(OutOfMemory{size, err})
	}
	s.offset += int64(size)
	return m
}
