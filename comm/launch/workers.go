package launch

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"weft/comm"
)

// Run does this rank's work. If it fails with an error that is not Common, the connection ends, and with it
// the work of the ranks that wait for this one.
func (r Ranks) Run(work func() error) error {
	err := work()
	if err != nil && !isCommon(err) {
		r.Comm.Abort(err)
	}
	return err
}

// Workers runs work as each of n ranks that are goroutines of this process. Their waits for each other fail
// after the timeout (0: never). It returns when all have ended, with the error from which the others follow.
// A panic becomes an error of its worker, as it would otherwise end the program without a word to the user.
func Workers(n int, timeout time.Duration, work func(*comm.Comm) error) error {
	return asRanks(comm.InProcess(n), timeout, work)
}

// SharedWorkers is Workers for the ranks that the shared workers of this process hold.
func SharedWorkers(shared []*comm.SharedWorker, timeout time.Duration, work func(*comm.Comm) error) error {
	var ends []comm.Transport
	for _, h := range shared {
		ends = append(ends, h.Transports()...)
	}
	err := asRanks(ends, timeout, work)
	if err != nil && !isCommon(err) {
		for _, h := range shared {
			h.Abort(err) // Close waits for goroutines that still read and write messages
		}
	}
	errs := make([]error, len(shared))
	var all sync.WaitGroup
	for i, h := range shared {
		all.Go(func() { errs[i] = h.Close() })
	}
	all.Wait()
	return cause(append([]error{err}, errs...))
}

// asRanks runs work as each of the ranks with these transports.
func asRanks(ends []comm.Transport, timeout time.Duration, work func(*comm.Comm) error) error {
	errs := make([]error, len(ends))
	var all sync.WaitGroup
	for i, end := range ends {
		c := comm.New(end, timeout)
		all.Go(func() {
			c.Begin()
			defer c.End()
			errs[i] = Ranks{c}.Run(func() (err error) {
				defer func() {
					if fault := recover(); fault != nil {
						err = Recovered(fault, fmt.Sprintf(" on worker %d", c.Rank()))
					}
				}()
				return work(c)
			})
		})
	}
	all.Wait()
	return cause(errs)
}

// cause is the error from which the others follow: the lowest rank's that is not the end of the connection.
func cause(errs []error) (first error) {
	for _, err := range errs {
		if err != nil &&
			(first == nil || errors.Is(first, comm.ErrAborted) && !errors.Is(err, comm.ErrAborted)) {
			first = err
		}
	}
	return first
}
