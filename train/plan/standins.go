package plan

import (
	"cmp"
	"fmt"
	"slices"

	"weft/parallel/mesh"
	"weft/parallel/tp"
	"weft/partition"
	"weft/train/worker"
)

// likeness is equal for workers that take the same memory, kernels and messages, where their partitions are
// alike: but for a row more or less, which slices own.
type likeness struct {
	stage   int
	columns string // of each width, in the worker's slice
	// alone says that no worker of a lower slice is on its machine, whose copy of the edges it may have.
	alone bool
}

// likeness is that of a worker of a model with so many columns.
func (in *Inputs) likeness(number int, widths []int) likeness {
	place := in.Mesh.Place(number)
	columns := make([]int, len(widths))
	for i, width := range widths {
		columns[i] = tp.Columns(width, in.Mesh.Slices, place.Slice)
	}
	alone := place.Slice == 0 || in.Machines != nil && in.Machines[number] != in.Machines[number-1]
	return likeness{place.Stage, fmt.Sprint(columns), alone}
}

// widths are the columns that slices of a worker's model divide.
func widths(w *worker.Worker) []int {
	all := []int{w.Outputs, w.Hidden, w.Heads, w.OutputHeads}
	for _, b := range w.Blocks {
		all = append(all, b.In, b.Out, b.H0)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// standIns returns for each worker the one that is planned in its place, itself if it is planned. The first
// worker is. Of partitions that are not alike those are planned that have the least work, the most, and
// between them equally many others; each stands for those of the most similar work.
func (in *Inputs) standIns(first *Worker) ([]int, error) {
	stands := make([]int, in.Workers)
	for number := range stands {
		stands[number] = number
	}
	holdSeveral := in.Workers < in.Mesh.Workers() // partitions: no worker is alike
	if holdSeveral || !in.Alike && (in.Most == 0 || in.Workers <= in.Most) {
		return stands, nil
	}
	byWork, err := in.byWork()
	if err != nil {
		return nil, err
	}
	alike := map[likeness][]int{} // slices of a stage
	for number := range stands {
		if place := in.Mesh.Place(number); place.Partition == 0 {
			like := in.likeness(number, first.widths)
			alike[like] = append(alike[like], place.Slice)
		}
	}
	partitions := min(len(byWork), max(1, in.Most/len(alike)))
	if in.Alike {
		partitions = 1
	}
	for like, those := range alike {
		for i, partition := range byWork {
			planned := byWork[nearest(i, len(byWork), partitions)]
			for _, slice := range those {
				of := mesh.Place{Stage: like.stage, Partition: partition, Slice: slice}
				by := mesh.Place{Stage: like.stage, Partition: planned, Slice: those[0]}
				stands[in.Mesh.Rank(of)] = in.Mesh.Rank(by)
			}
		}
	}
	stands[0] = 0
	return stands, nil
}

// copyPlanned makes each worker what the one that was planned in its place is.
func copyPlanned(workers []Worker) {
	for i := range workers {
		workers[i] = workers[workers[i].Like]
	}
}

// nearest is the number that is nearest to i of so many, the first, the last and others as far apart, of all
// numbers below n.
func nearest(i, n, of int) (number int) {
	for k := range of {
		if at := k * (n - 1) / max(1, of-1); max(at-i, i-at) < max(number-i, i-number) {
			number = at
		}
	}
	return number
}

// byWork are the partitions in the order of their work.
func (in *Inputs) byWork() (all []int, err error) {
	for p := range in.Mesh.Partitions {
		all = append(all, p)
	}
	if in.Alike || len(all) == 1 {
		return all, nil
	}
	err = in.Open(0, func(share *partition.Share) error {
		s := &share.Whole.Statistics
		slices.SortStableFunc(all, func(p, q int) int { return cmp.Compare(s.Work(p), s.Work(q)) })
		return nil
	})
	return all, err
}
