package paralleltest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/train"
)

// TestPlanOfStages: the plan of a model that is cut in two says of all of it what the plan of one worker
// does.
func TestPlanOfStages(t *testing.T) {
	g := paralleltest.Tangled(t)
	o := train.Defaults()
	o.Model, o.Layers, o.Threads = "gcn", 3, 1
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
	got := said(&train.Job{Graph: g, Options: o, Mesh: mesh.Mesh{Stages: 2, Partitions: 1, Slices: 1}, Engine: newStage})
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 1+o.Layers {
		t.Errorf("want %q: %s", want, diff)
	}
}
