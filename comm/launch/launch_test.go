package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"weft/comm"
	"weft/internal/assert"
	"weft/internal/refusal"
)

// each runs f as each of n ranks, and returns their errors.
func each(n int, f func(r Ranks) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank, end := range comm.InProcess(n) {
		all.Go(func() { errs[rank] = f(Ranks{comm.New(end, time.Minute)}) })
	}
	all.Wait()
	return errs
}

// alone is a process without others.
var alone = Ranks{comm.Alone()}

// own is an error of a type of its own.
type own struct{}

func (own) Error() string { return "a fault" }

// TestTogether: a step that fails on any rank fails on all, with the error of the lowest and its kind; the
// connection is whole.
func TestTogether(t *testing.T) {
	for name, c := range map[string]struct {
		errs []error // by rank
		want string  // "": none
		kind kind

		subject refusal.Subject
	}{
		"none":  {errs: make([]error, 3)},
		"first": {[]error{own{}, nil, nil}, "a fault", failed, ""},
		"last":  {[]error{nil, nil, own{}}, "rank 2: a fault", failed, ""},
		"lowest": {
			[]error{nil, refusal.Errorf("the second"), errors.New("the third")},
			"rank 1: the second", refused, "",
		},
		"refused": {[]error{refusal.Errorf("no: %w", own{}), nil, nil}, "no: a fault", refused, ""},
		"interrupted": {
			[]error{nil, fmt.Errorf("%w; nothing is kept", ErrInterrupted), nil},
			"interrupted; nothing is kept", interrupted, "",
		},
		"cancelled": {
			[]error{nil, nil, fmt.Errorf("a read: %w", context.Canceled)},
			"a read: context canceled", cancelled, "",
		},
		"lines": {[]error{errors.New("one\ntwo"), nil, nil}, "one\ntwo", failed, ""},
		"subject": {
			[]error{nil, nil, refusal.Weights.Errorf("none\nthere")},
			"rank 2: none\nthere", refused,
			refusal.Weights,
		},
	} {
		for rank, err := range each(3, func(r Ranks) error {
			err := r.Together(c.errs[r.Rank()])
			assert.NoError(t, r.Together(nil), name)
			return err
		}) {
			if c.want == "" {
				assert.NoError(t, err, name)
				continue
			}
			if err == nil || err.Error() != c.want || kindOf(err) != c.kind || !isCommon(err) {
				t.Errorf("%s: rank %d: %v, of kind %d", name, rank, err, kindOf(err))
			}
			assert.Equal(t, c.subject, refusal.SubjectOf(err), "%s: rank %d: about", name, rank)
			if rankErr := c.errs[rank]; rankErr != nil && strings.HasSuffix(c.want, rankErr.Error()) &&
				!errors.Is(err, rankErr) {
				t.Errorf("%s: rank %d lost its own error: %v", name, rank, err)
			}
		}
	}
	for _, err := range []error{nil, own{}} {
		assert.ErrorIs(t, alone.Together(err), err, "alone")
	}
}

// TestOnFirst: rank 0 alone makes the step, and its error is all ranks'.
func TestOnFirst(t *testing.T) {
	for _, fault := range []error{nil, refusal.Errorf("no: %w", own{})} {
		var ran atomic.Int32
		for rank, err := range each(3, func(r Ranks) error {
			return r.OnFirst(func() error { ran.Add(1); return fault })
		}) {
			if (err == nil) != (fault == nil) ||
				err != nil && (err.Error() != "no: a fault" || !refusal.Is(err) || !isCommon(err)) {
				t.Errorf("rank %d: %v, want %v", rank, err, fault)
			}
			if rank == 0 && fault != nil && !errors.Is(err, own{}) {
				t.Errorf("rank 0 lost its own error: %v", err)
			}
		}
		assert.Equal(t, 1, ran.Load(), "ranks made the step")
		assert.ErrorIs(t, alone.OnFirst(func() error { return fault }), fault, "alone")
	}
}

// TestOnFirstForLong: the others wait beyond the timeout of a wait, and a rank that is no more does not stop
// the step.
func TestOnFirstForLong(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ended := false
			for rank, err := range each(3, func(r Ranks) error {
				if gone && r.Rank() == 2 {
					r.Comm.Abort(own{})
					return own{}
				}
				return r.OnFirst(func() error {
					time.Sleep(time.Hour)
					ended = true
					return nil
				})
			}) {
				if (err != nil) != gone || gone && !errors.Is(err, own{}) {
					t.Errorf("rank %d, one gone %v: %v", rank, gone, err)
				}
			}
			if !ended {
				t.Errorf("one gone %v: the step did not come to its end", gone)
			}
		})
	}
}

// TestOnFirstPanics: a fault of the program stays in the goroutine of rank 0, which is told of it.
func TestOnFirstPanics(t *testing.T) {
	err := Workers(2, time.Minute, func(c *comm.Comm) error {
		return Ranks{c}.OnFirst(func() error { panic("a fault") })
	})
	assert.EqualError(t, err, "internal error on worker 0: a fault")
}

// TestEach: every rank makes its step, and waits beyond the timeout of a wait for those that take longer. One
// that fails fails all; one that is no more does not stop the steps of the others.
func TestEach(t *testing.T) {
	for name, c := range map[string]struct {
		fault error // of rank 1
		gone  bool  // rank 2
		want  string
	}{
		"all":  {nil, false, ""},
		"one":  {own{}, false, "rank 1: a fault"},
		"gone": {nil, true, "a fault"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var ended atomic.Int32
			for rank, err := range each(3, func(r Ranks) error {
				if c.gone && r.Rank() == 2 {
					r.Comm.Abort(own{})
					return own{}
				}
				return r.Each(func() error {
					time.Sleep(time.Duration(r.Rank()) * time.Hour)
					ended.Add(1)
					if r.Rank() == 1 {
						return c.fault
					}
					return nil
				})
			}) {
				switch {
				case c.want == "" && err != nil, c.want != "" && err == nil, c.gone && !errors.Is(err, own{}):
					t.Errorf("%s: rank %d: %v, want %q", name, rank, err, c.want)
				case c.want != "" && !c.gone && (err.Error() != c.want || !isCommon(err)):
					t.Errorf("%s: rank %d: %v, want %q", name, rank, err, c.want)
				}
			}
			if n := ended.Load(); n != 3 && !c.gone || n != 2 && c.gone {
				t.Errorf("%s: %d steps came to their end", name, n)
			}
		})
	}
	assert.ErrorIs(t, alone.Each(func() error { return own{} }), own{}, "alone")
}

// TestFault: the error of a panic wraps an error, keeps the stack, and is one line.
func TestFault(t *testing.T) {
	for _, value := range []any{own{}, "a fault"} {
		err := Workers(1, 0, func(*comm.Comm) error { panic(value) })
		var fault *Fault
		if !errors.As(err, &fault) || errors.Is(err, own{}) != (value == any(own{})) ||
			!strings.Contains(string(fault.Where), "TestFault") {
			t.Errorf("%v", err)
		}
	}
}

// TestAgree: the lowest rank whose text is not rank 0's is named, on all ranks.
func TestAgree(t *testing.T) {
	for want, texts := range map[string][]string{
		"":                          {"avx2", "avx2", "avx2"},
		"rank 1 has x, rank 0 avx2": {"avx2", "x", "y"},
		"rank 2 has z, rank 0 avx2": {"avx2", "avx2", "z"},
	} {
		for rank, err := range each(3, func(r Ranks) error {
			return r.Agree(texts[r.Rank()], func(rank int, theirs, first string) error {
				return refusal.Errorf("rank %d has %s, rank 0 %s", rank, theirs, first)
			})
		}) {
			if want == "" && err != nil || want != "" && (err == nil || err.Error() != want ||
				!isCommon(err) || !refusal.Is(err)) {
				t.Errorf("rank %d: %v, want %q", rank, err, want)
			}
		}
	}
	assert.NoError(t, alone.Agree("avx2", nil), "alone")
}

// TestLargest: all ranks know the largest number.
func TestLargest(t *testing.T) {
	each(3, func(r Ranks) error {
		if n, err := r.Largest(int64([]int{4, 9, 2}[r.Rank()])); n != 9 || err != nil {
			t.Errorf("rank %d: %d, %v", r.Rank(), n, err)
		}
		return nil
	})
	if n, err := alone.Largest(3); n != 3 || err != nil {
		t.Errorf("alone: %d, %v", n, err)
	}
}

// TestJoin: ranks begin together, or end with one error, of what one of them has found, or of another
// program.
func TestJoin(t *testing.T) {
	ours := Program{"1.0", "avx2", "epochs: 3"}
	for name, c := range map[string]struct {
		change func(*Start) // of rank 1
		want   string
	}{
		"alike": {func(*Start) {}, ""},
		"found": {func(s *Start) { s.Found = refusal.Errorf("no such model") }, "rank 1: no such model"},
		"signal": {func(s *Start) {
			s.Connected = func(Ranks) error { return ErrInterrupted }
		}, "interrupted"},
		"both": {func(s *Start) {
			s.Found, s.Connected = own{}, func(Ranks) error { return ErrInterrupted }
		}, "rank 1: a fault"},
		"version": {func(s *Start) {
			s.Program.Version = "1.1"
		}, "rank 1 is weft 1.1 and rank 0 weft 1.0: start the same program on all machines"},
		"rounding": {func(s *Start) {
			s.Program.Rounding = "sse"
		}, "rank 1 computes with sse and rank 0 with avx2, which round differently: "},
		"settings": {func(s *Start) {
			s.Program.Settings = "epochs: 4"
		}, "rank 1 has other settings than rank 0: "},
		"different": {func(s *Start) { s.Program = Program{"2.0", "sse", ""} }, "rank 1 is weft 2.0 "},
	} {
		ends := comm.InProcess(2)
		var all sync.WaitGroup
		for rank, end := range ends {
			all.Go(func() {
				s := Start{
					Rank: rank, Connect: func() (comm.Transport, error) { return end, nil },
					Timeout: time.Minute, Program: ours, Connected: func(Ranks) error { return nil },
				}
				if rank == 1 {
					c.change(&s)
				}
				r, err := s.Join()
				if r.Rank() != rank || (err == nil) != (c.want == "") ||
					err != nil && (!strings.HasPrefix(err.Error(), c.want) || !isCommon(err)) {
					t.Errorf("%s: rank %d: %v, want %q", name, r.Rank(), err, c.want)
				}
			})
		}
		all.Wait()
	}
}

// TestNoConnection: what every rank finds rank 0 says, and what one finds it says itself.
func TestNoConnection(t *testing.T) {
	for _, fault := range []error{refusal.Errorf("no MPI"), own{}} {
		for rank := range 2 {
			s := Start{Rank: rank, Connect: func() (comm.Transport, error) { return nil, fault }}
			if r, err := s.Join(); r.Comm.Size() != 1 || !errors.Is(err, fault) ||
				Told(err) != (refusal.Is(fault) && rank == 1) {
				t.Errorf("rank %d: %v, told %v", rank, err, Told(err))
			}
		}
	}
}

// TestEnd: who says an error, and who waits for whom.
func TestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int    // on how many ranks End calls the function
		told  []bool // by rank: there is nothing more to say
	}{
		"done":    {told: []bool{false, false, false}},
		"common":  {&Common{refusal.Errorf("of all")}, 1, []bool{true, true, true}},
		"refused": {refusal.Errorf("found by one"), 0, []bool{false, false, false}},
		"failed":  {own{}, 0, []bool{false, false, false}},
	} {
		var calls atomic.Int32
		for rank, err := range each(3, func(r Ranks) error {
			err := r.End(c.err, func(err error) {
				assert.Equal(t, 0, r.Rank(), name)
				assert.ErrorIs(t, err, c.err, name)
				calls.Add(1)
			})
			assert.Equal(t, c.calls, int(calls.Load()), "%s: rank %d ends when %d ranks have said why", name,
				r.Rank(), calls.Load())
			return err
		}) {
			if !errors.Is(err, c.err) || Told(err) != c.told[rank] || refusal.Is(err) != refusal.Is(c.err) {
				t.Errorf("%s: rank %d: %v, told %v", name, rank, err, Told(err))
			}
		}
	}
	if err := alone.End(&Common{own{}}, nil); !errors.Is(err, own{}) || Told(err) {
		t.Errorf("alone: %v", err)
	}
}

// TestEndWithoutTheOthers: a rank that has gone without leave is an error of the others.
func TestEndWithoutTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rank, err := range each(3, func(r Ranks) error {
			if r.Rank() == 2 {
				return nil
			}
			return r.End(&Common{own{}}, func(error) {})
		}) {
			if rank < 2 && (err == nil || Told(err)) {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	})
}

// TestWorkers: of several errors the cause is returned; a Common one leaves the others their connection.
func TestWorkers(t *testing.T) {
	wait := func(c *comm.Comm) error { return c.Barrier(comm.Setup) }
	for name, c := range map[string]struct {
		work func(*comm.Comm) error
		want string
	}{
		"done": {wait, ""},
		"cause": {func(c *comm.Comm) error {
			if c.Rank() == 2 {
				return own{}
			}
			return wait(c)
		}, "a fault"},
		"panic": {func(c *comm.Comm) error {
			if c.Rank() == 1 {
				panic(own{})
			}
			return wait(c)
		}, "internal error on worker 1: a fault"},
		"common": {func(c *comm.Comm) error {
			if c.Rank() == 0 {
				return &Common{own{}}
			}
			return wait(c.Group(1, 2))
		}, "a fault"},
		"lowest": {func(c *comm.Comm) error {
			return &Common{fmt.Errorf("worker %d", c.Rank())}
		}, "worker 0"},
	} {
		if err := Workers(3, time.Minute, c.work); (err == nil) != (c.want == "") ||
			err != nil && err.Error() != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestAfterSignal: a rank that waits for long after a signal says what for, and one that does not says
// nothing.
func TestAfterSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range each(2, func(r Ranks) error {
			if r.Rank() == 1 {
				if err := r.Interrupted(syscall.SIGINT); !errors.Is(err, ErrInterrupted) ||
					err.Error() != "rank 1: interrupted" {
					t.Errorf("at work: %v", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.NoError(t, r.AfterSignal(ctx, syscall.SIGTERM), "at work")
				return r.Comm.Barrier(comm.Setup)
			}
			waits := make(chan error)
			go func() { waits <- r.AfterSignal(t.Context(), syscall.SIGTERM) }()
			err := r.Comm.Barrier(comm.Setup)
			const want = `rank 0: signal "terminated" during receive in a barrier of set-up data, peer rank 1, for 250ms`
			assert.EqualError(t, <-waits, want)
			return err
		}) {
			assert.NoError(t, err)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
