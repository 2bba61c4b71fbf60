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

// Kernels are launched in lists. A list that was launched before becomes a CUDA graph. One call of the driver
// launches a graph, and one more call is needed for each kernel with other arguments than the time before. A
// graph runs the kernels of the list in its order, so results have the same bits.

const (
	// mostListed is the largest length of a list. The card begins with it while the host lists more kernels.
	mostListed = 32
	// leastListed is the length of a list from which launching a graph takes less time.
	leastListed = 4
	// manyThreads is about the number of threads that a large card runs at a time. A kernel of more threads
	// takes longer than its launch. It ends a list, and is launched by itself.
	manyThreads = 1 << 18
	// mostLists bounds the number of known lists. A further list replaces the one that was launched longest
	// ago.
	mostLists = 512
)

// queue has the kernels of Launch that are not launched yet.
type queue struct {
	mu     sync.Mutex
	graphs bool // a list becomes a graph when it comes again
	alone  bool // each kernel is launched at once
	listed []C.weft_kernel
	names  []string // of the listed kernels
	args   []byte   // arguments of all kernels
	known  map[string]*list
	lists  int // number of lists launched so far
	use    tensor.Graphs
}

// list is a list that was launched before.
type list struct {
	graph *C.weft_graph // nil: none was made
	args  []byte        // the graph's arguments, or those of the last time
	last  int           // queue.lists at the last launch
}

// recordsGraphs reports whether lists become graphs. The driver may lack the functions, and
// WEFT_DEVICE_GRAPHS=0 turns graphs off.
func (c *card) recordsGraphs() bool {
	return c.driver.has_graphs != 0 && os.Getenv("WEFT_DEVICE_GRAPHS") != "0"
}

// Graphs returns the number of graphs of kernels that were launched so far.
func (d *Device) Graphs() tensor.Graphs {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	return d.queue.use
}

// Launch starts a kernel, whose arguments are the struct of so many bytes at args. It does not wait, and may
// list the kernel, to be launched with later ones. A failure of the kernel shows in a later call. There must
// be a kernel of that name (Has).
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

// ask launches the list, and then calls what, which puts something else into the stream of kernels.
func (d *Device) ask(doing string, what func() C.int) error {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	_ = d.launchListed() // the next wait returns the error
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
		d.endGraphs() // the first launch of a graph takes memory of the card
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

// launchesAlone sets whether kernels are launched one by one from now on.
func (d *Device) launchesAlone(alone bool) {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	_ = d.launchListed() // the next wait returns the error
	d.queue.alone = alone
}

// endQueue launches the list, and gives graphs back.
func (d *Device) endQueue() error {
	d.queue.mu.Lock()
	defer d.queue.mu.Unlock()
	return cmp.Or(d.launchListed(), d.forgetLists(0))
}

// launched notes, for errors, the names of kernels that were launched since the last wait.
func (d *Device) launched(names ...string) {
	if d.waitAfterLaunches {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sinceWait = append(d.sinceWait, names...)
	d.sinceWait = d.sinceWait[max(0, len(d.sinceWait)-recent):]
}

// first returns the address of the arguments.
func (q *queue) first() *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(q.args))) }

// graphOfListed returns a graph of the list with its arguments, and the number of kernels whose arguments
// have changed. nil: the list is launched kernel by kernel.
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
	case !made && 2*len(changed) > len(q.listed): // changing the graph takes as long as launching the kernels
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

// endGraphs turns graphs off, because the driver could not make one, often for lack of memory.
func (d *Device) endGraphs() {
	_ = d.forgetLists(0) // the next wait tells the error
	d.queue.graphs = false
}

// changed returns the numbers of the listed kernels whose arguments differ from those in l.
func (q *queue) changed(l *list) (numbers []C.int) {
	for i, k := range q.listed {
		if !bytes.Equal(q.args[k.at:k.at+k.bytes], l.args[k.at:k.at+k.bytes]) {
			numbers = append(numbers, C.int(i))
		}
	}
	return numbers
}

// forgetLists forgets known lists until at most so many are left. It waits before it ends a graph, which may
// still run.
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
