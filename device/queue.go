package device

// #include "driver.h"
import "C"

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"sync"
	"unsafe"

	"weft/tensor"
)

// Kernels are launched in lists. A list that was launched before becomes a CUDA graph: one call of the driver
// launches it, and one more for each kernel whose arguments differ from those of the time before. A graph has
// the kernels of the list in its order, and so the bits.

const (
	// mostListed ends a list, so that a card begins with it while the host lists what follows.
	mostListed = 32
	// leastListed is how many launches take longer than that of a graph.
	leastListed = 4
	// manyThreads is about how many threads a large card runs at a time. A kernel of more threads takes
	// longer than its launch: it ends a list, and is launched by itself.
	manyThreads = 1 << 18
	// mostLists bounds how many lists are known. One more replaces the list that was launched longest ago.
	mostLists = 512
)

// queue has the kernels that a device was asked for and that are not launched yet.
type queue struct {
	mu     sync.Mutex
	graphs bool // lists that come again become graphs
	alone  bool // each kernel is launched at once
	listed []C.weft_kernel
	names  []string // of the kernels
	args   []byte   // of all
	known  map[string]*list
	lists  int // launched so far
	use    tensor.Graphs
}

// list is one that was launched.
type list struct {
	graph *C.weft_graph // nil: none was made
	args  []byte        // of the graph, or of the last time
	last  int           // queue.lists, the last time
}

// recordsGraphs reports whether lists become graphs, for which the driver may lack functions, and which
// WEFT_DEVICE_GRAPHS=0 turns off.
func (c *card) recordsGraphs() bool {
	return c.driver.has_graphs != 0 && os.Getenv("WEFT_DEVICE_GRAPHS") != "0"
}

// Graphs counts the graphs of kernels that were launched so far.
func (d *Device) Graphs() tensor.Graphs {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	return d.queue.use
}

// Launch starts a kernel, which takes the struct of so many bytes at args, and does not wait for it: it may
// be listed, and launched with those after it. What goes wrong in it becomes known later. There must be a
// kernel of that name.
func (d *Device) Launch(kernel string, blocks, threads int, args unsafe.Pointer, bytes int) error {
	f := d.function(kernel)
	q := &d.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	var failed error
	many := blocks*threads > manyThreads
	if many {
		failed = d.launchListed()
	}
	q.listed = append(q.listed, C.weft_kernel{
		function: f, blocks: C.uint(blocks), threads: C.uint(threads), at: C.size_t(len(q.args)),
		bytes: C.size_t(bytes),
	})
	q.names = append(q.names, kernel)
	q.args = append(q.args, unsafe.Slice((*byte)(args), bytes)...)
	if many || q.alone || !q.graphs || len(q.listed) == mostListed {
		failed = cmp.Or(failed, d.launchListed())
	}
	if d.waitAfterLaunches {
		failed = cmp.Or(failed, d.note("kernel "+kernel, C.weft_wait(d.driver, d.stream)))
	}
	return failed
}

// ask asks the stream of kernels for something else, after what was listed.
func (d *Device) ask(doing string, what func() C.int) error {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	_ = d.launchListed() // the next wait tells what fails
	return d.note(doing, what())
}

// launchListed launches the list. The caller holds queue.mu.
func (d *Device) launchListed() error {
	q := &d.queue
	if len(q.listed) == 0 {
		return nil
	}
	defer func() { q.listed, q.names, q.args = q.listed[:0], q.names[:0], q.args[:0] }()
	q.lists++
	if g, changed := d.graphOfListed(); g != nil {
		status := C.weft_run_graph(d.driver, d.stream, g)
		if status != outOfMemory {
			d.launched(q.names...)
			q.use = q.use.Plus(tensor.Graphs{Launches: 1, Kernels: len(q.listed), Changed: changed}, 1)
			return d.note("launching a graph of kernels", status)
		}
		d.endGraphs() // the first launch takes memory of the card
	}
	var failed C.int
	status := C.weft_launch(d.driver, d.stream, &q.listed[0], C.int(len(q.listed)), q.first(), &failed)
	if status == 0 {
		d.launched(q.names...)
		return nil
	}
	d.launched(q.names[:failed]...)
	return d.note("launching "+q.names[failed], status)
}

// launchesAlone says whether kernels are launched one by one, from now on.
func (d *Device) launchesAlone(alone bool) {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	_ = d.launchListed() // the next wait tells what fails
	d.queue.alone = alone
}

// endQueue launches what is listed, and gives graphs back.
func (d *Device) endQueue() error {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	return cmp.Or(d.launchListed(), d.forgetLists(0))
}

// launched remembers the names of kernels that were launched and are not waited for, for errors.
func (d *Device) launched(names ...string) {
	if d.waitAfterLaunches {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sinceWait = append(d.sinceWait, names...)
	d.sinceWait = d.sinceWait[max(0, len(d.sinceWait)-recent):]
}

// first is the address of the arguments.
func (q *queue) first() *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(q.args))) }

// graphOfListed returns a graph of the list, with its arguments, and how many kernels had others the time
// before. nil: it is launched kernel by kernel.
func (d *Device) graphOfListed() (g *C.weft_graph, kernels int) {
	q := &d.queue
	if !q.graphs || len(q.listed) < leastListed {
		return nil, 0
	}
	// A kernel's description has no padding.
	key := unsafe.Slice((*byte)(unsafe.Pointer(&q.listed[0])), len(q.listed)*C.sizeof_weft_kernel)
	l := q.known[string(key)]
	if l == nil {
		_ = d.forgetLists(mostLists - 1) // the next wait tells the error
		q.known[string(key)] = &list{args: slices.Clone(q.args), last: q.lists}
		return nil, 0
	}
	l.last = q.lists
	changed := q.changed(l)
	var status C.int
	switch made := l.graph != nil; {
	case !made && 2*len(changed) > len(q.listed): // to change them again takes as long as to launch them
		copy(l.args, q.args)
		return nil, 0
	case !made:
		l.graph = new(C.weft_graph)
		status = C.weft_make_graph(d.driver, l.graph, &q.listed[0], C.int(len(q.listed)), q.first())
	case len(changed) > 0:
		status = C.weft_change_graph(d.driver, l.graph, &q.listed[0], q.first(), &changed[0],
			C.int(len(changed)))
	}
	if status != 0 {
		d.endGraphs()
		return nil, 0
	}
	copy(l.args, q.args)
	return l.graph, len(changed)
}

// endGraphs has kernels be launched one by one from now on, as the driver has no graph for a list: often for
// lack of memory.
func (d *Device) endGraphs() {
	_ = d.forgetLists(0) // the next wait tells the error
	d.queue.graphs = false
}

// changed are the numbers of the kernels whose arguments are others than those of a list.
func (q *queue) changed(l *list) (numbers []C.int) {
	for i, k := range q.listed {
		if !bytes.Equal(q.args[k.at:k.at+k.bytes], l.args[k.at:k.at+k.bytes]) {
			numbers = append(numbers, C.int(i))
		}
	}
	return numbers
}

// forgetLists has so many lists be known at most. It waits before it ends a graph, which may still run.
func (d *Device) forgetLists(most int) (failed error) {
	q := &d.queue
	for len(q.known) > most {
		var key string
		var oldest *list
		for k, l := range q.known {
			if oldest == nil || l.last < oldest.last {
				key, oldest = k, l
			}
		}
		if oldest.graph != nil {
			failed = cmp.Or(failed, d.note("waiting for a graph of kernels", C.weft_wait(d.driver, d.stream)),
				d.note("giving a graph of kernels back", C.weft_end_graph(d.driver, oldest.graph)))
		}
		delete(q.known, key)
	}
	return failed
}
