package mpi

// #cgo CFLAGS: -O2 -std=gnu11
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"weft/comm"
	"weft/internal/refusal"
)

// Start initialises MPI and connects this process to the processes launched with it. It waits for them until
// the timeout; 0 sets no limit. A process calls it once. It refuses a process that no launcher started, or
// for whose launcher no library loads. After an error MPI may still run, so the process should end.
func Start(timeout time.Duration) (comm.Transport, error) {
	if !Launched() {
		return nil, refusal.Errorf("no MPI launcher started this process: start it with mpirun -n RANKS, " +
			"or with srun --mpi=pmix")
	}
	library, err := Load()
	if err != nil {
		return nil, err
	}
	w := &world{library: library, live: map[*transfer]bool{}, stopped: make(chan struct{})}
	started := make(chan error, 1)
	go w.serve(started)
	deadline := comm.NewDeadline(timeout)
	defer deadline.Stop()
	err, in := comm.InTime(deadline, started)
	switch {
	case !in:
		return nil, fmt.Errorf("rank %d: start of MPI: %w (%v): a rank is stopped, dead or slow, or its "+
			"machine is not reached: see what the others printed; slow ones need a longer --comm-timeout",
			Rank(), comm.ErrTimeout, timeout)
	case err != nil:
		return nil, err
	}
	return w, nil
}

var finalized atomic.Bool

// Exit ends the process. A rank whose transport is closed ends as a program in C does: MPICH 5 takes leave of
// its launcher in a function that C's exit calls, and the launcher kills the others if one ends without that.
func Exit(status int) {
	if finalized.Load() {
		C.exit(C.int(status))
	}
	os.Exit(status)
}

// world is all processes of the launch. Only the goroutine of serve makes MPI calls, for all others.
type world struct {
	library    Library
	rank, size int
	device     bool // the library says that it accepts addresses of a device

	mu      sync.Mutex
	posted  []*transfer        // transfers that were handed over and not yet started
	calls   []func()           // calls to make on serve's thread
	live    map[*transfer]bool // transfers that are not done; after an abort, what MPI may still refer to
	err     error              // why this rank was aborted
	closing bool

	aborting sync.Once
	stopped  chan struct{} // closed when serve makes no more calls
	final    error         // the error of MPI_Finalize, once stopped is closed
}

// transfer is a message of this rank.
type transfer struct {
	link
	data []byte
	pin  runtime.Pinner
	err  error
	done chan struct{}
	// awaited says that somebody has asked for done.
	awaited atomic.Bool

	// The engine's fields:
	rest  []byte // bytes that have not begun
	parts int    // how many parts are in flight
	ended bool
}

// Done says that somebody waits from now on, so that MPI is polled more often (weft_mpi_wait).
func (t *transfer) Done() <-chan struct{} {
	select {
	case <-t.done:
	default:
		if t.awaited.CompareAndSwap(false, true) {
			C.weft_mpi_await(1)
			C.weft_mpi_wake()
		}
	}
	return t.done
}

func (t *transfer) Err() error { return t.err }

func (w *world) Rank() int { return w.rank }
func (w *world) Size() int { return w.size }

func (w *world) Send(data []byte, to, tag int) comm.Request {
	return w.post(&transfer{link: link{to, tag, true}, data: data})
}

func (w *world) Receive(data []byte, from, tag int) comm.Request {
	return w.post(&transfer{link: link{from, tag, false}, data: data})
}

func (w *world) post(t *transfer) *transfer {
	t.done = make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		t.err = w.err
	case w.closing:
		t.err = errors.New("the rank has ended its communication")
	default:
		t.pin.Pin(unsafe.SliceData(t.data))
		w.live[t] = true
		w.posted = append(w.posted, t)
		C.weft_mpi_wake()
		return t
	}
	close(t.done)
	return t
}

// TakesDevice implements comm.DeviceTransport.
func (w *world) TakesDevice() error {
	if w.device {
		return nil
	}
	return refusal.Errorf("%s (%s) does not say that it takes addresses of cards (MPIX_Query_cuda_support): "+
		"name one that was built with CUDA by %s", w.library.Name, w.library.File, Variable)
}

// UseDevice implements comm.DeviceTransport.
func (w *world) UseDevice(use func() error) error {
	used := make(chan error, 1)
	w.mu.Lock()
	w.calls = append(w.calls, func() { used <- use() })
	C.weft_mpi_wake()
	w.mu.Unlock()
	select {
	case err := <-used:
		return err
	case <-w.stopped:
		return errors.New("MPI has ended")
	}
}

// Abort ends this rank's requests. The other ranks notice that this rank ends, or their deadlines pass.
// Afterwards MPI cannot be used.
func (w *world) Abort(err error) {
	w.aborting.Do(func() {
		w.mu.Lock()
		w.err = fmt.Errorf("%w: %w", comm.ErrAborted, err)
		C.weft_mpi_wake()
		w.mu.Unlock()
		select {
		case <-w.stopped:
		case <-time.After(time.Second): // a call into MPI hangs; the requests end all the same
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for t := range w.live {
			t.err = w.err
			close(t.done)
		}
	})
}

// Close waits for the other ranks, and finalises MPI. After an abort it does neither.
func (w *world) Close() error {
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return w.err
	}
	if n := len(w.live); n > 0 {
		w.mu.Unlock()
		return fmt.Errorf("rank %d ends its communication while %d messages are under way", w.rank, n)
	}
	w.closing = true
	C.weft_mpi_wake()
	w.mu.Unlock()
	<-w.stopped
	return w.final
}

// finish ends a request, unless an abort does.
func (w *world) finish(t *transfer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		delete(w.live, t)
		t.pin.Unpin()
		close(t.done)
		if t.awaited.Swap(true) { // from now on Done does not set it
			C.weft_mpi_await(-1)
		}
	}
}

// serve makes every call into MPI, from one thread. It polls, as MPI moves data only inside its calls.
func (w *world) serve(started chan<- error) {
	runtime.LockOSThread()
	if err := w.begin(); err != nil {
		started <- err
		return
	}
	close(started)
	e := engine{links: map[link]*queue{}}
	for {
		w.mu.Lock()
		posted, calls, aborted, closing := w.posted, w.calls, w.err != nil, w.closing
		w.posted, w.calls = nil, nil
		w.mu.Unlock()
		for _, f := range calls {
			f()
		}
		if aborted {
			close(w.stopped)
			select {} // MPI still runs, and may need the thread, so it must stay
		}
		if closing {
			w.final = failure(C.weft_mpi_finalize())
			finalized.Store(w.final == nil)
			close(w.stopped)
			return
		}
		for _, t := range posted {
			e.start(t)
		}
		ended, err := e.wait()
		for _, t := range ended {
			w.finish(t)
		}
		if err != nil {
			go w.Abort(err) // Abort waits for this loop
		}
	}
}

func (w *world) begin() error {
	var rank, size C.int
	if err := failure(C.weft_mpi_init(&rank, &size)); err != nil {
		return fmt.Errorf("MPI does not start: %w", err)
	}
	w.rank, w.size, w.device = int(rank), int(size), C.weft_mpi_takes_device() != 0
	if w.size == Ranks() && w.rank == Rank() {
		return nil
	}
	return refusal.Errorf("the launcher says that this is rank %d of %d, and %s (%s) that it is %d of %d: "+
		"name the launcher's library by %s, or use the launcher of this one, in Slurm srun %s", Rank(),
		Ranks(), w.library.Name, w.library.File, w.rank, w.size, Variable, w.library.SrunOption)
}

// failure is an MPI error code as an error.
func failure(code C.int) error {
	switch {
	case code == 0:
		return nil
	case C.weft_mpi_is_truncation(code) != 0:
		return fmt.Errorf("%w: more bytes were sent than are expected", comm.ErrLength)
	default:
		return errors.New(C.GoString(C.weft_mpi_text(code)))
	}
}
