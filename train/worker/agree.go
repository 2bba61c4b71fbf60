package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/tensor"
)

// Asks are the things for which workers ask at the end of an epoch. All workers learn for what any of them
// asks.
type Asks uint8

// The things for which a worker may ask.
const (
	Stop    Asks = 1 << iota // to end the run, after a signal
	TimeUp                   // to end the run, because its time is up
	Save                     // to write a checkpoint
	Writing                  // to wait: its part of the last checkpoint is not written yet
)

// agree ends an epoch, on all workers together. It adds up their parts of the loss, combines their Asks, and
// fails if the replicas' parameters differ.
func (w *model) agree(epoch int, part float64, asks Asks) (loss float64, asked Asks, err error) {
	const words = 3
	all, err := comm.Gather(w.Groups.World, comm.Statistics, part, float64(asks), w.hash())
	if err != nil {
		return part, asks, err
	}
	hashes := make([]float64, w.Groups.World.Size())
	for r := range hashes {
		theirs := all[r*words:]
		loss += theirs[0]
		asked |= Asks(theirs[1])
		hashes[r] = theirs[2]
	}
	cause := "a fault of the program, or of this machine"
	if w.Processes {
		cause = "the machines do not compute alike: set WEFT_SIMD to one level on all of them"
	}
	err = w.sameParameters(hashes, func(rank, first int) error {
		return fmt.Errorf("after epoch %d the parameters of worker %d differ from those of worker %d: %s",
			epoch, rank, first, cause)
	})
	if err != nil {
		err = &launch.Common{Err: err}
	}
	return loss, asked, err
}

// sameParameters fails if a worker's checksum differs from that of its stage's first worker. differ makes the
// error for the lowest such rank.
func (w *member) sameParameters(hashes []float64, differ func(rank, first int) error) error {
	for rank, h := range hashes {
		if first := w.Groups.Mesh.Rank(mesh.Coords{
			Stage: w.Groups.Mesh.Coords(rank).Stage,
		}); h != hashes[first] {
			return differ(rank, first)
		}
	}
	return nil
}

// Load sets the parameters to weights that this worker has read, with the error of the read. It fails on all
// workers if it fails on any, or if their weights differ.
func (w *model) Load(weights nn.State, err error) error {
	if err == nil {
		if w.Program.Path != "" { // the weights keep tensors that no operation reads
			w.Params.Allow(slices.Collect(maps.Keys(weights))...)
		}
		err = w.Params.Load(weights)
	}
	if err := w.Ranks().Together(err); err != nil {
		return err
	}
	lists, err := comm.ToFirst(w.Groups.World, []float64{w.hash()})
	if err != nil {
		return err
	}
	return w.Ranks().Together(w.sameParameters(slices.Concat(lists...), func(rank, first int) error {
		return refusal.Weights.Errorf("worker %d has read other weights than worker %d: all machines need "+
			"the same file", rank, first)
	}))
}

// CheckPart fails on all workers if any worker's context is cancelled, or if its part of a result is not
// finite.
func (w *model) CheckPart(ctx context.Context, part *tensor.Matrix) error {
	counts := []float64{0, 0}
	if ctx.Err() != nil {
		counts[0] = 1
	}
	if !tensor.Finite(part.ReadFloats()) {
		counts[1] = 1
	}
	if err := w.sum(counts); err != nil {
		return err
	}
	switch {
	case counts[0] > 0:
		return &launch.Common{Err: context.Canceled}
	case counts[1] > 0:
		return &launch.Common{Err: refusal.Weights.Of(errors.New("the weights give values " +
			"that are not finite on this graph; were they trained on such features, with the same " +
			"--normalize-features?"))}
	}
	return nil
}

// Ranks are all workers, for steps that they make together.
func (w *member) Ranks() launch.Ranks { return launch.Ranks{Comm: w.Groups.All} }

// hash is a checksum of the parameters and buffers that all replicas hold. It is 0 in a plan, and for a
// worker alone.
func (w *model) hash() float64 {
	if w.Groups.World.Size() == 1 {
		return 0
	}
	h := uint32(0)
	table := crc32.MakeTable(crc32.Castagnoli)
	w.Team.Serial(func() {
		for _, p := range w.Params.List {
			if p.Rows == nil {
				h = crc32.Update(h, table, p.Value.ReadBytes())
			}
		}
		for _, b := range w.Params.Buffers {
			h = crc32.Update(h, table, comm.Bytes(b.Read()))
		}
	})
	return float64(h)
}
