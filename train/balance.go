package train

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/internal/refusal"
	"weft/parallel/mesh"
)

// bySite are numbers of each place of a model.
type bySite map[string]int64

func (b bySite) sum() (all int64) {
	for _, n := range b {
		all += n
	}
	return all
}

// since are the numbers less earlier ones.
func (b bySite) since(before bySite) bySite {
	more := bySite{}
	for site, n := range b {
		more[site] = n - before[site]
	}
	return more
}

// Imbalance is the largest of the workers' amounts over their mean, 0 where there is nothing.
func Imbalance[T int | int64 | float64](amounts []T) float64 {
	sum := T(0)
	for _, n := range amounts {
		sum += n
	}
	if sum == 0 {
		return 0
	}
	return float64(slices.Max(amounts)) * float64(len(amounts)) / float64(sum)
}

// listedWorkers is how many workers' numbers stand on a line.
const listedWorkers = 16

// balanceLines say how much each of several workers aggregates, where there is anything to.
func balanceLines(edgeColumns []int64) []string {
	most := slices.Max(edgeColumns)
	if len(edgeColumns) == 1 || most == 0 {
		return nil
	}
	line := fmt.Sprintf("edges × columns aggregated an epoch: %.3g million on the worker with most, %.2f times the mean",
		float64(most)/1e6, Imbalance(edgeColumns))
	if len(edgeColumns) <= listedWorkers {
		line += "; by worker"
		for _, n := range edgeColumns {
			line += fmt.Sprintf(" %.3g", float64(n)/1e6)
		}
	}
	return []string{line}
}

// idleSlices warn of sites where some slices of a mesh have no columns.
func idleSlices(grid mesh.Mesh, all []workerPlan) (warnings []string) {
	if grid.Slices == 1 {
		return nil
	}
	bySite := map[string][]int64{} // what each slice aggregates
	for rank, w := range all {
		for site, n := range w.EdgeColumns {
			if bySite[site] == nil {
				bySite[site] = make([]int64, grid.Slices)
			}
			bySite[site][grid.Place(rank).Slice] += n
		}
	}
	byBusy := map[int][]string{} // sites by how many slices have columns
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		busy := 0
		for _, n := range bySite[site] {
			if n > 0 {
				busy++
			}
		}
		byBusy[busy] = append(byBusy[busy], site)
	}
	for _, busy := range slices.Sorted(maps.Keys(byBusy)) {
		if busy == 0 || busy == grid.Slices { // nothing is aggregated there, or by all
			continue
		}
		take := fmt.Sprintf("graph=%d, which divides the vertices", grid.Partitions*grid.Slices)
		switch fewer := fmt.Sprintf("tensor=%d", busy); {
		case busy > 1 && grid.Partitions > 1:
			take = fmt.Sprintf("graph=%d,%s, or %s", grid.Partitions, fewer, take)
		case busy > 1:
			take = fewer + ", or " + take
		}
		warnings = append(warnings, fmt.Sprintf("%s: columns for %d of %d slices, and the others aggregate nothing there; take %s %s",
			strings.Join(byBusy[busy], ", "), busy, grid.Slices, refusal.Setting("parallel"), take))
	}
	return warnings
}
