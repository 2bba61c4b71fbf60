package launch

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"weft/comm"
)

// Run does this rank's work. Where that fails with an error that is not Common, the connection ends, and with
// it the work of the ranks that wait for this one.
func (r Ranks) Run(work func() error) error {
	err := work()
	if err != nil && !isCommon(err) {
		r.Comm.Abort(err)
	}
	return err
}

// Workers runs work as each of n ranks that are goroutines of this process, whose waits for each other fail
// after the timeout (0: never). It returns when all have ended, with the error that the others follow from. A
// panic is an error of its worker, as it would end the program without a word to the user.
func Workers(n int, timeout time.Duration, work func(*comm.Comm) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank, end := range comm.InProcess(n) {
		c := comm.New(end, timeout)
		all.Go(func() {
			errs[rank] = Ranks{c}.Run(func() (err error) {
				defer func() {
					if fault := recover(); fault != nil {
						err = Recovered(fault, fmt.Sprintf(" on worker %d", rank))
					}
				}()
				return work(c)
			})
		})
	}
	all.Wait()
	return cause(errs)
}

// cause is the error that the others follow from: the lowest rank's that is not the end of the connection.
func cause(errs []error) (first error) {
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, comm.ErrAborted) && !errors.Is(err, comm.ErrAborted)) {
			first = err
		}
	}
	return first
}
