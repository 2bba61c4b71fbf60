// Package paralleltest is what every way of dividing the work must do, and what its tests need.
package paralleltest

import (
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/sar"
	"weft/partition"
)

// Whole is all of a graph of these edges on one worker.
func Whole(t testing.TB, team *kernel.Team, r *graph.Relation) *sar.Partition {
	t.Helper()
	g, err := sar.New(team, comm.Alone(), partition.All(&graph.Graph{Relation: *r}), sar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
