package launch

import (
	"cmp"
	"time"

	"weft/comm"
	"weft/internal/refusal"
)

// Start is how a rank begins.
type Start struct {
	Rank int // this process's rank, as its launcher says
	// Connect connects the ranks. If it returns a refusal, every rank finds the same.
	Connect func() (comm.Transport, error)
	Timeout time.Duration // of every wait for another rank; 0: never
	// Connected is called on every rank that has a connection, before it waits for the others. An error is
	// this rank's, as Found is.
	Connected func(Ranks) error
	Found     error // what this rank has found wrong with the request before it connects
	Program   Program
}

// Program is what must be the same on all ranks, so that all compute the same.
type Program struct {
	Version  string
	Rounding string // the kernels' level, and how they multiply bfloat16s if the run has these
	Settings string
}

// Join begins the work of the ranks together. If any rank has found something wrong, or is another program,
// all end with one error, as a Common. Without a connection the rank is alone.
func (s *Start) Join() (Ranks, error) {
	t, err := s.Connect()
	if err != nil {
		found := cmp.Or(s.Found, err)
		if refusal.Is(err) {
			found = ToldByFirst(s.Rank, found)
		}
		return Ranks{comm.Alone()}, found
	}
	r := Ranks{comm.New(t, s.Timeout)}
	err = s.Connected(r)
	if err := r.Together(cmp.Or(s.Found, err)); err != nil {
		return r, err
	}
	return r, s.Program.agree(r)
}

// agree refuses ranks that would not compute the same.
func (p *Program) agree(r Ranks) error {
	err := r.Agree(p.Version, func(rank int, theirs, first string) error {
		return refusal.Errorf("rank %d is weft %s and rank 0 weft %s: start the same program on all machines",
			rank, theirs, first)
	})
	if err != nil {
		return err
	}
	err = r.Agree(p.Rounding, func(rank int, theirs, first string) error {
		return refusal.Errorf("rank %d computes with %s and rank 0 with %s, which round differently: set "+
			"WEFT_SIMD, or WEFT_BF16, to the one that all machines have, for all ranks", rank, theirs, first)
	})
	if err != nil {
		return err
	}
	return r.Agree(p.Settings, func(rank int, _, _ string) error {
		return refusal.Errorf("rank %d has other settings than rank 0: give all ranks the same ones, and "+
			"the same --config file", rank)
	})
}
