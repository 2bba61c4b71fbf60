package paralleltest_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/partition"
	"weft/train"
)

// TestPlanOfStages: the plan of a model that is cut in two says of all of it what the plan of one worker
// does.
func TestPlanOfStages(t *testing.T) {
	g := paralleltest.Tangled(t)
	o := train.Defaults()
	o.Model, o.Layers, o.Threads, o.InputDropout = "gcn", 3, 1, .1 // nothing is aggregated once
	said := func(j *train.Job) (lines []string) {
		plan, err := j.Plan(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range plan.Lines {
			head, rest, whole := strings.Cut(line, " parameters, ")
			if whole && strings.Contains(rest, "worker") {
				lines = append(lines, head)
			}
			if strings.HasPrefix(line, "convs.") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	want := said(&train.Job{Graph: g, Options: o})
	got := said(&train.Job{Graph: g, Options: o, Mesh: mesh.Mesh{Stages: 2, Partitions: 1, Slices: 1}})
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 1+o.Layers {
		t.Errorf("want %q: %s", want, diff)
	}
}

// TestPriceOfOrders: what an order of work that is not taken would move between layouts is what it moves
// where it is taken.
func TestPriceOfOrders(t *testing.T) {
	g := paralleltest.Tangled(t)
	for _, mesh := range []string{"tensor=3", "graph=2,tensor=2"} {
		price := map[string]map[string][2]string{} // by order of work, site: what is moved, and what another order would
		for _, choice := range []string{"transform-first", "aggregate-first"} {
			o := train.Defaults()
			o.Layers, o.Hidden, o.Threads, o.Parallel, o.AggregationOrder, o.InputDropout = 3, 10, 1, mesh, choice, .1
			job := &train.Job{Graph: g, Options: o}
			if strings.HasPrefix(mesh, "graph=2") {
				job.Parts = inTurn(t, g, 2)
			}
			plan, err := job.Plan(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			price[choice] = map[string][2]string{}
			for _, line := range plan.Lines {
				if m := regexp.MustCompile(`^(convs\.\d): .* \(.*: ([^:)]*)\); (.*)$`).FindStringSubmatch(line); m != nil {
					price[choice][m[1]] = [2]string{m[3], m[2]}
				}
			}
		}
		taken, other := price["transform-first"], price["aggregate-first"]
		if len(taken) != 3 || len(other) != 3 {
			t.Fatalf("%s: %v", mesh, price)
		}
		for site, p := range taken {
			if q := other[site]; p[0] != q[1] || p[1] != q[0] {
				t.Errorf("%s, %s: %q and %q", mesh, site, p, q)
			}
		}
	}
}

// inTurn divides the graph's vertices among k partitions in turn.
func inTurn(t *testing.T, g *graph.Graph, k int) *train.Parts {
	t.Helper()
	shares, err := partition.Split(g, &partition.Assignment{K: k, Of: paralleltest.Dividings(g.Vertices(), k)["in turn"]})
	if err != nil {
		t.Fatal(err)
	}
	return &train.Parts{Whole: shares[0].Whole, Open: func(p int) (*partition.Share, error) { return shares[p], nil }}
}
