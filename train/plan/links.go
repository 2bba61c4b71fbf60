package plan

import (
	"weft/comm"
	"weft/comm/launch"
	"weft/kernel"
	"weft/parallel/links"
	"weft/parallel/tp"
	"weft/partition"
	"weft/tensor"
	"weft/train/task"
)

// fetches returns the rows that workers fetch from each other in the last epoch of link prediction, for which
// they draw its negative edges. The result is not Known for another task, without Asks.Range and Asks.Counts,
// and if partitions take turns on one worker or on several processes. All processes call it together.
func (in *Inputs) fetches() (f *links.Fetches, err error) {
	if !in.links() || in.Task != task.Link || in.TakesTurns() && (in.Workers == 1 || in.Comm.Size() > 1) {
		return &links.Fetches{}, nil
	}
	each := func(c *comm.Comm) error {
		place := in.Mesh.Coords(c.Rank())
		return in.Open(place.Partition, func(share *partition.Share) error {
			mem := tensor.NewMeter()
			defer mem.Close()
			e := task.Env{Team: kernel.NewTeam(1, mem), World: c, Share: share}
			if in.Mesh.Slices > 1 {
				kept, err := in.Passing.Restrict(share)
				if err != nil {
					return err
				}
				if e.Vertices, err = in.sliced(kept, place.Slice); err != nil {
					return err
				}
			}
			fetches, err := task.Fetches(in.Kind, e, in.Epochs, in.TakesTurns())
			if c.Rank() == 0 || in.Comm.Size() > 1 {
				f = fetches
			}
			return err
		})
	}
	if in.Comm.Size() > 1 {
		return f, in.ranks().Run(func() error { return each(in.Comm) })
	}
	return f, launch.Workers(in.Mesh.Workers(), 0, each)
}

// sliced returns the vertices of a slice's outputs, as engine.Inference has them.
func (in *Inputs) sliced(s *partition.Share, slice int) ([]int32, error) {
	kinds, err := in.Kind.Types(s)
	if err != nil {
		return nil, err
	}
	n := s.Whole.Number(kinds)
	return n.List(s, func(kind int) []int32 { return tp.Places(s, kind, in.Mesh.Slices, slice) }), nil
}
