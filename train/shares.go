package train

import (
	"context"
	"errors"

	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/parallel/mfg"
	"weft/partition"
	"weft/tensor"
)

// openShares says how workers open their shares: of the whole graph, of what some predictions read of it, or
// of parts.
func (s *session) openShares(ctx context.Context, weights *nn.State) (err error) {
	j, k := s.job, s.Mesh.Partitions
	some := k == 1 && j.listed() != nil && weights != nil && !j.HeldOut
	switch {
	case j.Graph == nil && (j.Parts == nil || k == 1):
		return refusal.Errorf("a job has neither a graph nor, for several partitions, parts")
	case j.Appended != nil && !some:
		return refusal.Errorf("a graph with vertices and edges appended is for a prediction of some " +
			"vertices, with all edges and on one worker")
	case some:
		return s.openSome(&mfg.Scratch{})
	case k == 1:
		share := s.wholeShare()
		s.whole = &share.Whole
		s.open = s.opener(share, func(use func(*partition.Share) error) error { return use(share) })
		return nil
	}
	if j.Parts == nil {
		if j.Parts, err = j.MakeParts(ctx); err != nil {
			return err
		}
	}
	whole := j.Counts()
	s.whole, s.open = &whole, s.openPart
	return nil
}

// wholeShare is the share of a worker that has the whole graph.
func (s *session) wholeShare() *partition.Share {
	return s.job.inputs.arranged(partition.All(s.job.Graph))
}

// opener opens what a worker reads of its share, for a graph with one partition.
func (s *session) opener(share *partition.Share, read func(use func(*partition.Share) error) error,
) func(p int, use func(*partition.Share) error) error {
	return func(_ int, use func(*partition.Share) error) error {
		return s.guarded(share, func() error {
			if err := s.job.Graph.CheckMade(); err != nil {
				return err
			}
			return read(use)
		})
	}
}

// openPart opens the share of a partition.
func (s *session) openPart(number int, use func(*partition.Share) error) error {
	opened, err := s.job.Parts.Open(number)
	if err != nil {
		return err
	}
	defer opened.Close()
	share := s.job.inputs.arranged(opened)
	if n, k := share.Edges.Partitions(), s.Mesh.Partitions; n != k {
		return refusal.Errorf("a job on a mesh of %d partitions, whose parts are %d: the numbers must "+
			"be equal", k, n)
	}
	return s.guarded(share, func() error { return use(share) })
}

// guarded runs f, and turns failures from outside the program into errors: refused memory, truncated files,
// failing workers, and wrong shapes in the caller's model or loss.
func (s *session) guarded(share *partition.Share, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case tensor.OutOfMemory:
			err = p
		case exchange.Failure:
			err = p.Err
		case tensor.DiskFailure:
			err = p
		case tensor.DeviceFailure:
			err = p
		case tensor.Mismatch:
			if s.job.Model == nil && s.job.Loss == nil {
				panic(p)
			}
			err = refusal.Errorf("%w", p)
		default:
			panic(p)
		}
		var disk tensor.DiskFailure // or a failure of the disk beside the worker's work
		var card tensor.DeviceFailure
		switch {
		case errors.As(err, &disk):
			err = disk.Err
		case errors.As(err, &card):
			err = AboutDevice(s.job.Options.Device, card.Err)
		}
	}()
	return share.Guard(f)
}
