package planning

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
)

// plannedOf is the plan of a job.
func plannedOf(t *testing.T, g *graph.Graph, o train.Options) Planned {
	t.Helper()
	settings, err := o.Resolve()
	require.NoError(t, err)
	job := &train.Job{Graph: g, Options: o}
	p, err := job.Plan(context.Background())
	require.NoError(t, err)
	return PlanOf(job, settings, &p)
}

// communities is a graph with so many features.
func communities(t *testing.T, vertices, features int) *graph.Graph {
	t.Helper()
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: vertices, Degree: 6, Features: features, Classes: 5, Seed: 3,
	})
	require.NoError(t, err)
	return g
}

// TestPlanWarnsOfSums: rows of features that are no counts, or whose sum is 1, are doubtful to divide by
// their sums.
func TestPlanWarnsOfSums(t *testing.T) {
	for name, c := range map[string]struct {
		features graph.Features
		want     string
	}{
		"words":   {graph.Features{Columns: 2, Dense: []float32{0, 1, 1, 1, 0, 0}}, ""},
		"counts":  {graph.Features{Columns: 2, Dense: []float32{0, 7, 3, 1, 1, 0}}, ""},
		"one-hot": {graph.Features{Columns: 2, Dense: []float32{0, 1, 1, 0, 0, 0}}, "has no effect"},
		"normalised": {
			graph.Features{Columns: 2, Dense: []float32{0.25, 0.75, 0.5, 0.49999, 1, 0}}, "has no effect",
		},
		"real": {
			graph.Features{Columns: 2, Dense: []float32{0.25, 0.75, 3, 0.5, 1, 0}}, "are real numbers (0.5)",
		},
		"negative": {
			graph.Features{Columns: 2, Dense: []float32{0.25, 0.75, -3, 4, 1, 0}}, "are below zero (-3)",
		},
		"sparse": {graph.Features{
			Columns: 9, Indptr: []int64{0, 1, 2, 2}, Indices: []int32{4, 8}, Data: []float32{0.5, 2},
		}, "are real numbers"},
	} {
		relation, err := graph.NewRelation(3, graph.Edges{Source: []int32{0, 1}, Target: []int32{1, 2}})
		require.NoError(t, err)
		g := &graph.Graph{
			Types: []graph.VertexType{
				{
					Frame: graph.Frame{
						Count: len(relation.Indptr) - 1, Features: c.features,
						Labels: graph.Labels{Classes: 2, Class: []int64{0, 1, 0}},
						Splits: []graph.Split{{Train: []int64{0, 1}, Val: []int64{2}, Test: []int64{}}},
					},
				},
			},
			Relations: []graph.Relation{relation},
		}
		for _, normalize := range []string{"row", "none"} {
			o := train.Defaults()
			o.NormalizeFeatures = normalize
			text := strings.Join(plannedOf(t, g, o).Warnings(), "; ")
			if normalize == "none" || c.want == "" {
				assert.Equal(t, "", text, "%s, %s", name, normalize)
			} else if !strings.Contains(text, "--normalize-features row") || !strings.Contains(text, c.want) {
				t.Errorf("%s: %q, want a warning with %q", name, text, c.want)
			}
		}
	}
}

// TestIdleSlices: if slices have no columns, a plan names the layers, and meshes without idle workers.
func TestIdleSlices(t *testing.T) {
	g := communities(t, 300, 13)
	for _, c := range []struct {
		model, mesh string
		partitions  int
		want        []string
	}{
		{"gcn", "tensor=5", 0, nil},
		{"gcn", "tensor=7", 3, []string{"convs.1: columns for 5 of 7 slices, and the others aggregate " +
			"nothing there; take --parallel tensor=5, or graph=7, which divides the vertices"}},
		{"gatv2", "graph=2,tensor=3", 0, []string{
			"convs.1: columns for 1 of 3 slices, and the others aggregate nothing there; take --parallel " +
				"graph=6, which divides the vertices",
			"convs.0: columns for 2 of 3 slices, and the others aggregate nothing there; " +
				"take --parallel graph=2,tensor=2, or graph=6, which divides the vertices",
		}},
		{"mlp", "tensor=7", 0, nil},
	} {
		o := train.Defaults()
		o.Model, o.Parallel, o.Partitions, o.Heads = c.model, c.mesh, setting.Partitions(c.partitions), 2
		idle := slices.DeleteFunc(plannedOf(t, g, o).Warnings(),
			func(w string) bool { return !strings.Contains(w, " slices") })
		assert.Equal(t, c.want, idle, "%s on %s", c.model, c.mesh)
	}
}

// TestLastEpochCounts: without validation vertices the last epoch is the best.
func TestLastEpochCounts(t *testing.T) {
	g, o := communities(t, 300, 13), train.Defaults()
	g.Types[0].Splits[0].Test, g.Types[0].Splits[0].Val = append(g.Types[0].Splits[0].Test,
		g.Types[0].Splits[0].Val...), []int64{}
	slices.Sort(g.Types[0].Splits[0].Test)
	o.Patience = 1
	want := "there are no validation vertices, so the results are those of the last epoch, and --patience " +
		"1 never runs out"
	if warnings := plannedOf(t, g, o).Warnings(); !slices.Contains(warnings, want) {
		t.Errorf("%q, want a warning %q", warnings, want)
	}
}

// TestStagesAreSaid: a plan tells the stages and chunks, and the formula's number of bytes at the boundaries.
func TestStagesAreSaid(t *testing.T) {
	o := train.Defaults()
	o.Model, o.Layers, o.Hidden, o.Threads, o.Parallel, o.Chunks = "gcnii", 6, 8, 1, "pipeline=3", 5
	text := strings.Join(plannedOf(t, communities(t, 300, 13), o).lines(), "\n")
	for _, want := range []string{
		"5 chunks in each partition by metis, of ", "stage 1, worker 1: blocks 3 to 4, ",
		"(2·V·4 bytes of 32 columns at all cuts: ", "28.6 % of an epoch",
	} {
		assert.Contains(t, text, want, "is not in")
	}
}

// TestCheckpointIsSaid: a checkpoint has the parts of all workers, and a worker's buffers its own part.
func TestCheckpointIsSaid(t *testing.T) {
	o := train.Defaults()
	o.Threads, o.Parallel, o.CheckpointEvery = 1, "graph=2", setting.Interval{Epochs: 3}
	p := plannedOf(t, communities(t, 300, 13), o)
	p.Workers[0].Checkpoint, p.Workers[1].Checkpoint = 2_100_000, 3_400_000
	assert.Contains(t, strings.Join(p.lines(), "\n"), "\na checkpoint every 3 epochs: 5.5 MB on disk, and 3.4 MB of "+
		"the buffers of a worker\n")
}

// TestAmountsOnDisk: what rests on disk is said in the unit that suits it.
func TestAmountsOnDisk(t *testing.T) {
	p := &plan.Plan{
		Rests: true, Least: 7_360_512, All: 24_000_001,
		Workers: []plan.Worker{{
			Disk: tensor.Moved{Written: 60_649_500_000, Read: 1_500_000}, DiskBytes: 2_000_000_000_000,
		}},
	}
	want := "matrices of partitions that are not at work rest on disk: 61 GB written and 1.5 MB read an " +
		"epoch, 2.0 TB there at the peak; a worker needs 7.4 MB at least, and 25 MB for nothing to rest"
	if got := (Planned{Plan: p, Settings: &setting.Resolved{}}).rests(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNamedMemoryIsEnough: what a plan names as the least memory of a worker is accepted as a limit, also
// what its refusal names.
func TestNamedMemoryIsEnough(t *testing.T) {
	g, o := communities(t, 3000, 13), train.Defaults()
	o.Partitions, o.Partition, o.Offload, o.Threads = 3, "random", t.TempDir(), 1
	limited := func(limit string) error {
		o := o
		all := setting.All()
		named := slices.IndexFunc(all, func(s setting.Setting) bool { return s.Name == "memory-limit" })
		require.NoError(t, all[named].Set(&o, limit))
		job := &train.Job{Graph: g, Options: o}
		p, err := job.Plan(t.Context())
		if err != nil {
			return err
		}
		return p.CheckLimit(o.MemoryLimit)
	}
	settings, err := o.Resolve()
	require.NoError(t, err)
	p, err := (&train.Job{Graph: g, Options: o}).PlanWith(t.Context(), plan.Asks{Range: true})
	require.NoError(t, err)
	rests := Planned{&p, settings, 1}.rests()
	refused := fmt.Sprint(limited("1B"))
	for from, named := range map[string]*regexp.Regexp{
		rests:   regexp.MustCompile(`a worker needs (\S+ MB) at least`),
		refused: regexp.MustCompile(`would need (\S+ [kM]B) while`),
	} {
		found := named.FindStringSubmatch(from)
		if found == nil {
			t.Fatalf("%q names no memory", from)
		}
		assert.NoError(t, limited(found[1]), "%s, as in %q", found[1], from)
	}
}

// readsNobody is the warning that no training vertex reads another one, of a graph with the edges 0→2, 1→2,
// 2→3 and 0→0; "": there is none.
func readsNobody(t *testing.T, trains []int64, o train.Options) string {
	t.Helper()
	relation, err := graph.NewRelation(5, graph.Edges{
		Source: []int32{0, 1, 2, 0}, Target: []int32{2, 2, 3, 0},
	})
	require.NoError(t, err)
	found := plannedOf(t, &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{
				Count:    5,
				Features: graph.Features{Columns: 2, Dense: []float32{0, 1, 1, 1, 0, 0, 1, 0, 1, 1}},
				Labels:   graph.Labels{Classes: 2, Class: []int64{0, 1, 0, 1, 0}},
				Splits:   []graph.Split{{Train: trains, Val: []int64{}, Test: []int64{}}},
			},
		}},
		Relations: []graph.Relation{relation},
	}, o).Warnings()
	found = slices.DeleteFunc(found, func(w string) bool { return !strings.Contains(w, "reads another") })
	return strings.Join(found, "; ")
}

// TestReadsNobody: a plan warns where no edge of the model's direction leads to a training vertex from
// another one.
func TestReadsNobody(t *testing.T) {
	const in = "of 2 training vertices none has an in-edge, so that none reads another vertex and the " +
		"graph does not help; import the edges with --reverse-relations, or with --symmetrize"
	const out = "of 1 training vertex none has an out-edge, so that none reads another vertex and the graph " +
		"does not help; leave --direction out out"
	const both = "of 1 training vertex none has an edge, so that none reads another vertex and the graph does " +
		"not help; --model mlp learns as much"
	for _, c := range []struct {
		train                     []int64
		model, direction, between string
		want                      string
	}{
		{[]int64{0, 1}, "sage", "in", "", in},
		{[]int64{0, 1}, "gat", "in", "graph=2", in},
		{[]int64{0, 1}, "gcn", "in", "tensor=2", in},
		{[]int64{0, 1}, "mlp", "in", "", ""},
		{[]int64{0, 1, 2}, "sage", "in", "", ""},
		{[]int64{0, 3}, "sage", "in", "graph=2", ""},
		{[]int64{0, 1}, "sage", "out", "", ""},
		{[]int64{0, 3}, "sage", "out", "graph=3", ""},
		{[]int64{3}, "sage", "out", "", out},
		{[]int64{3}, "sage", "out", "graph=2", out},
		{[]int64{3}, "sage", "both", "", ""},
		{[]int64{4}, "sage", "both", "", both},
	} {
		o := train.Defaults()
		o.Model, o.Direction, o.Parallel = c.model, c.direction, c.between
		assert.Equal(t, c.want, readsNobody(t, c.train, o), "%v, %s, %s, %s", c.train, c.model,
			c.direction, c.between)
	}
}

// TestOwnReadsNobody: so does the plan of an own module, by the directions in which it sums along edges,
// unless a mean over all vertices reads each.
func TestOwnReadsNobody(t *testing.T) {
	const way = "so that none reads another vertex and the graph does not help; import the edges with " +
		"--symmetrize, or give the module those of the other direction, too"
	const (
		in = `{"op": "gather", "in": [0], "end": "source"}, {"op": "scatter", "in": [1], "reduce": "sum"}`
		// against are sums at the source, of the value before
		against = `{"op": "gather", "in": [%d], "end": "target"}, ` +
			`{"op": "scatter", "in": [%d], "reduce": "sum", "end": "source"}`
		meanOf = in + `, {"op": "row_mean", "in": [2]}, {"op": "add", "in": [2, 3]}`
	)
	out, both := fmt.Sprintf(against, 0, 1), in+", "+fmt.Sprintf(against, 2, 3)
	for _, c := range []struct {
		train      []int64
		operations string
		output     int
		between    string
		want       string
	}{
		{[]int64{0, 1}, in, 2, "", "of 2 training vertices none has an in-edge, " + way},
		{[]int64{0, 1}, in, 2, "graph=2", "of 2 training vertices none has an in-edge, " + way},
		{[]int64{0, 1, 2}, in, 2, "", ""},
		{[]int64{3}, out, 2, "", "of 1 training vertex none has an out-edge, " + way},
		{[]int64{3}, out, 2, "graph=2", "of 1 training vertex none has an out-edge, " + way},
		{[]int64{0}, out, 2, "", ""},
		{[]int64{3}, both, 4, "", ""},
		{[]int64{4}, both, 4, "", "of 1 training vertex none has an edge, so that none reads another vertex and the " +
			"graph does not help; a model without edges learns as much"},
		{[]int64{0, 1}, meanOf, 4, "", ""},
	} {
		path := filepath.Join(t.TempDir(), "program.json")
		text := fmt.Sprintf(`{"version": 1, "class": "Own", "parameters": [], "output": %d, `+
			`"operations": [{"op": "features", "shape": [2]}, %s]}`, c.output, c.operations)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		o := train.Defaults()
		o.Program.Path, o.Parallel = path, c.between
		require.NoError(t, o.ReadFiles())
		assert.Equal(t, c.want, readsNobody(t, c.train, o), "%v, %s, %s", c.train, c.operations, c.between)
	}
}
