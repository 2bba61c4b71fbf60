// Package launch brings the ranks of a run to one answer. Each rank makes a step by itself, or rank 0 makes
// it for all. Then all go on, or all end with one error, which one of them says.
//
// There are two sorts of errors. All ranks have come to a Common error at the same point of their work: their
// connection still works, and they take leave of each other over it (End). Any other error ends the
// connection, so that no rank waits for one that has failed (Run).
//
// Package train and the commands make the steps of a run by it.
package launch

import (
	"bytes"
	"encoding/json"
	"time"

	"weft/comm"
)

// Ranks is this rank's place among the ranks of a run. A process without others has comm.Alone.
type Ranks struct{ Comm *comm.Comm }

// Rank is this rank's number, from 0.
func (r Ranks) Rank() int { return r.Comm.Rank() }

// First reports whether this is rank 0, which speaks for all.
func (r Ranks) First() bool { return r.Rank() == 0 }

// Together ends, with err, a step that every rank makes by itself. If it failed on any rank, it fails on all,
// with the error of the lowest such rank, as a Common. That rank has its error itself. The others have its
// text, its subject and its kind: a refusal, ErrInterrupted, context.Canceled, or none of these.
func (r Ranks) Together(err error) error {
	all, broken := comm.ToFirst(r.Comm, []byte(pack(err)))
	if broken != nil {
		return broken
	}
	var lowest verdict
	for k, theirs := range all {
		if len(theirs) > 0 {
			lowest = verdict{Found: true, Rank: k, Text: theirs}
			break
		}
	}
	lowest, broken = r.verdict(lowest)
	if broken != nil || !lowest.Found {
		return broken
	}
	return r.common(lowest.Rank, lowest.Text, err)
}

// common is the error of a rank as a Common of all: that rank has err itself, and the others what it packed.
func (r Ranks) common(rank int, packed []byte, err error) error {
	if rank != r.Rank() {
		err = unpack(string(packed))
	}
	return &Common{from(rank, err)}
}

// verdict is what rank 0 concludes from what all ranks have told it.
type verdict struct {
	Found       bool
	Rank        int    // the lowest rank that it is about
	Text, First []byte // the texts of that rank and of rank 0
}

// verdict returns rank 0's verdict on all ranks.
func (r Ranks) verdict(v verdict) (verdict, error) {
	var text []byte // empty: nothing is found
	if v.Found {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return v, err
		}
	}
	text, err := comm.FromFirst(r.Comm, text)
	if err != nil || len(text) == 0 {
		return verdict{}, err
	}
	return v, json.Unmarshal(text, &v)
}

// OnFirst runs f on rank 0 while the others wait for it, however long it takes: before their wait times out,
// rank 0 tells them that it is at work. f always comes to its end. If it fails, it fails on all, as in
// Together.
func (r Ranks) OnFirst(f func() error) error {
	const working, done = 0, 1
	state := []byte{working}
	tell := func() error { return r.Comm.Broadcast(comm.Setup, state, 0) }
	if !r.First() {
		for state[0] == working {
			if err := tell(); err != nil {
				return err
			}
		}
		return r.Together(nil)
	}
	ended := make(chan struct{})
	told := make(chan error, 1)
	go func() { told <- r.until(ended, tell) }()
	failed := func() error {
		defer close(ended) // also if f panics
		return f()
	}()
	if err := <-told; err != nil {
		return err
	}
	state[0] = done
	if err := tell(); err != nil {
		return err
	}
	return r.Together(failed)
}

// until calls tell, often enough for the ranks that wait for it, until ended is closed or tell fails.
func (r Ranks) until(ended <-chan struct{}, tell func() error) error {
	timeout := r.Comm.Timeout()
	if timeout == 0 {
		return nil
	}
	tick := time.NewTicker(max(timeout/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-tick.C:
			if err := tell(); err != nil {
				return err
			}
		}
	}
}

// Each runs f on every rank. A rank whose f has ended waits for the others, however long theirs take: before
// its wait times out, they tell it that they are at work. If f fails on any rank, it fails on all, as in
// Together. f sends nothing.
func (r Ranks) Each(f func() error) error {
	ended := make(chan struct{})
	var broken error
	join := r.Comm.Beside(func(aside *comm.Comm) { broken = Ranks{aside}.allEnded(ended) })
	failed := func() error {
		defer close(ended) // also if f panics
		return f()
	}()
	join()
	if broken != nil {
		return broken
	}
	return r.Together(failed)
}

// allEnded waits until ended is closed on all ranks.
func (r Ranks) allEnded(ended <-chan struct{}) error {
	var working <-chan time.Time
	if timeout := r.Comm.Timeout(); timeout > 0 {
		tick := time.NewTicker(max(timeout/4, time.Millisecond))
		defer tick.Stop()
		working = tick.C
	}
	for {
		pending := int64(1)
		select {
		case <-ended:
			pending = 0
		case <-working:
		}
		left, err := r.Largest(pending)
		if err != nil || left == 0 {
			return err
		}
	}
}

// Agree fails on all ranks if a rank's text differs from rank 0's. The error, a Common, is what differs makes
// of the lowest such rank. A text is not empty. In a plan the other ranks' texts are.
func (r Ranks) Agree(text string, differs func(rank int, theirs, first string) error) error {
	all, err := comm.ToFirst(r.Comm, []byte(text))
	if err != nil {
		return err
	}
	var other verdict
	for k, theirs := range all {
		if len(theirs) > 0 && !bytes.Equal(theirs, all[0]) {
			other = verdict{true, k, theirs, all[0]}
			break
		}
	}
	if other, err = r.verdict(other); err != nil || !other.Found {
		return err
	}
	return &Common{differs(other.Rank, string(other.Text), string(other.First))}
}

// Largest is the largest of the ranks' numbers.
func (r Ranks) Largest(n int64) (int64, error) {
	largest := []int64{n}
	err := r.Comm.MaxInts(largest)
	return largest[0], err
}
