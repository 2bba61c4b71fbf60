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

// workerClass is equal for workers that take the same memory, kernels and messages if their partitions are
// alike. Slices may own a row more or less.
type workerClass struct {
	stage      int
	partitions int    // how many partitions the worker holds
	columns    string // the number of columns of each width in the worker's slice
	// alone says that no worker of a lower slice is on its machine. Otherwise it may share that worker's copy
	// of the edges.
	alone bool
}

// classOf is the class of a worker at a place of the mesh. It holds so many partitions, and slices divide
// columns of these widths.
func (in *Inputs) classOf(number int, place mesh.Coords, partitions int, widths []int) workerClass {
	columns := make([]int, len(widths))
	for i, width := range widths {
		columns[i] = tp.Columns(width, in.Mesh.Slices, place.Slice)
	}
	alone := place.Slice == 0 || in.Machines != nil && in.Machines[number] != in.Machines[number-1]
	return workerClass{place.Stage, partitions, fmt.Sprint(columns), alone}
}

// widths are the columns that slices of a worker's model divide.
func widths(w *worker.Worker) []int {
	all := []int{w.Outputs, w.Hidden, w.Heads, w.OutputHeads}
	for _, b := range w.Blocks {
		all = append(all, b.In, b.Out, b.H0)
		all = append(all, b.Made...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// represent returns for each worker the number of the worker whose plan stands for its own: its own number if
// it is planned. The first worker is planned. If partitions are not alike, the ones with the least and the
// most work are planned, and some at equal distances between these. Each represents the partitions of the
// most similar work. Groups of samples hold the same partitions: the first group represents all.
func (in *Inputs) represent(first *Worker) ([]int, error) {
	by := make([]int, in.Workers)
	for number := range by {
		by[number] = number
	}
	if in.TakesTurns() {
		if in.Alike {
			in.representHolders(by, first.widths)
		}
		return by, nil
	}
	if !in.Alike && (in.Most == 0 || in.Workers <= in.Most) {
		return by, nil
	}
	byWork, err := in.byWork()
	if err != nil {
		return nil, err
	}
	alike, group := map[workerClass][]int{}, in.Mesh.Workers() // slices of a stage that are alike
	for number := range group {
		if place := in.Mesh.Coords(number); place.Partition == 0 {
			like := in.classOf(number, place, 1, first.widths)
			alike[like] = append(alike[like], place.Slice)
		}
	}
	partitions := min(len(byWork), max(1, in.Most/len(alike)))
	if in.Alike {
		partitions = 1
	}
	for like, members := range alike {
		for i, partition := range byWork {
			planned := byWork[nearest(i, len(byWork), partitions)]
			for _, slice := range members {
				represented := mesh.Coords{Stage: like.stage, Partition: partition, Slice: slice}
				model := mesh.Coords{Stage: like.stage, Partition: planned, Slice: members[0]}
				by[in.Mesh.Rank(represented)] = in.Mesh.Rank(model)
			}
		}
	}
	by[0] = 0
	for number := range by[group:] {
		by[group+number] = by[number%group]
	}
	return by, nil
}

// representHolders has the first worker of each class represent the others of its class.
func (in *Inputs) representHolders(by, widths []int) {
	partitions, places := make([]int, in.Workers), make([]mesh.Coords, in.Workers)
	for rank, worker := range in.Holders() {
		partitions[worker]++
		places[worker] = in.Mesh.Coords(rank)
	}
	firsts := map[workerClass]int{}
	for number := range by {
		class := in.classOf(number, places[number], partitions[number], widths)
		if _, found := firsts[class]; !found {
			firsts[class] = number
		}
		by[number] = firsts[class]
	}
}

// copyPlanned copies to each worker the plan of the worker that was planned in its place.
func copyPlanned(workers []Worker) {
	for i := range workers {
		workers[i] = workers[workers[i].Like]
	}
}

// nearest returns the planned number that is nearest to i. Of all numbers below n, count are planned: the
// first, the last, and others at equal distances.
func nearest(i, n, count int) (number int) {
	for k := range count {
		if at := k * (n - 1) / max(1, count-1); max(at-i, i-at) < max(number-i, i-number) {
			number = at
		}
	}
	return number
}

// byWork lists the partitions in the order of their work.
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
