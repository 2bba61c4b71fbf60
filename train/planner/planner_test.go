package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/kernel/machine"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
)

func small(t *testing.T) *graph.Graph { return ofDegree(t, 6) }

func ofDegree(t *testing.T, degree float64) *graph.Graph {
	t.Helper()
	o := generate.Default(generate.Uniform)
	o.Vertices, o.Degree, o.Features, o.Classes, o.Directed = 300, degree, 8, 3, true
	g, err := generate.Graph(o)
	require.NoError(t, err)
	return g
}

func planner(g *graph.Graph) *Planner {
	o := train.Defaults()
	o.Model, o.Layers, o.Hidden, o.Threads, o.Chunks, o.ChunkOrder = "gcnii", 4, 8, 1, 4, axis.Fixed
	return &Planner{
		Options: o, Graph: g, Machine: Machine{Cores: 2, Sharers: 1, Links: Links{Sends: 1e6, Receives: 1e6}},
		Open: func(_ context.Context, r *setting.Resolved) (*train.Job, error) {
			return &train.Job{Graph: g, Options: r.Options}, nil
		},
	}
}

// TestMeshes: bytes and memory of each mesh are those of a run, times are those of its steps, and the fastest
// comes first. What a run refuses is left out with the run's reason.
func TestMeshes(t *testing.T) {
	p := planner(small(t))
	var reported []string
	p.Progress = func(stage string, _, _ int64) { reported = append(reported, stage) }
	meshes, refused, err := p.Meshes(context.Background(), 4)
	require.NoError(t, err)
	for i, want := range []string{
		"mesh 1 of 6, graph=4: planning its messages and memory",
		"mesh 1 of 6, graph=4: measuring its kernels",
	} {
		if i >= len(reported) || reported[i] != want {
			t.Errorf("reported %q, want %q", reported, want)
		}
	}
	var names []string
	for i, m := range meshes {
		names = append(names, m.Parallel)
		o := p.options(m.Settings.Mesh)
		o.Epochs = 3
		r, err := (&train.Job{Graph: p.Graph, Options: o, Checkpoints: &train.Checkpoints{}}).
			Run(context.Background())
		require.NoError(t, err, m.Parallel)
		assert.Equal(t, r.Communication.Bytes(), m.SentBytes(), m.Parallel)
		assert.Equal(t, slices.Max(r.PeakTensorBytes), m.PeakTensorBytes(), m.Parallel)
		wire := 0.0 // of the worker that sends most: no epoch is shorter
		for _, sent := range m.Plan.Sent {
			wire = max(wire, float64(sent.Bytes())/p.Machine.Sends)
		}
		parts := m.Times.Compute + m.Times.Link + m.Times.Imbalance + m.Times.Bubble + m.Times.Wait
		if m.Times.Epoch < wire || parts < .999*m.Times.Epoch || parts > 1.001*m.Times.Epoch {
			t.Errorf("%s: %+v, with %v s on the wire", m.Parallel, m.Times, wire)
		}
		if i > 0 && meshes[i-1].Times.Epoch > m.Times.Epoch {
			t.Errorf("%s comes after %s", m.Parallel, meshes[i-1].Parallel)
		}
		if m.Exact != (m.Settings.Mesh.Stages == 1) {
			t.Errorf("%s is exact: %v", m.Parallel, m.Exact)
		}
	}
	for _, r := range refused {
		names = append(names, r.Parallel)
		assert.Refused(t, r.Reason, "", r.Parallel)
	}
	slices.Sort(names)
	want := []string{
		"graph=2,pipeline=2", "graph=2,tensor=2", "graph=4", "pipeline=4", "tensor=2,pipeline=2", "tensor=4",
	}
	assert.Equal(t, want, names)
}

// TestMachines: workers that slice the columns have copies of the edges where they are on machines of their
// own, and one on each machine of two.
func TestMachines(t *testing.T) {
	p := planner(ofDegree(t, 100))
	p.Options.Model = "gcn"
	for sharers, want := range map[int]string{1: "true true true true", 2: "true false true false"} {
		p.Machine.Sharers = sharers
		m, err := p.mesh(context.Background(), mesh.Mesh{Stages: 1, Partitions: 1, Slices: 4}, 0,
			func(string) {})
		require.NoError(t, err)
		var copies []bool
		for _, bytes := range m.Plan.GraphBytes {
			copies = append(copies, bytes >= 2*4*p.Graph.Edges())
		}
		assert.Equal(t, "["+want+"]", fmt.Sprint(copies), "%d on a machine", sharers)
	}
}

// TestMostSteps: meshes of one axis are predicted whatever it takes. Those of several axes are as long as
// their steps are few enough together.
func TestMostSteps(t *testing.T) {
	p := planner(small(t))
	all, _, err := p.Meshes(context.Background(), 4)
	require.NoError(t, err)
	ofSeveral := 0
	for _, m := range all {
		if axes(m.Settings.Mesh) > 1 {
			ofSeveral += m.steps
		}
	}
	for most, want := range map[int]int{0: 3, ofSeveral + 100: 6} {
		meshes, refused, err := p.within(context.Background(), 4, most)
		require.NoError(t, err, "%d steps", most)
		assert.Len(t, meshes, want, "%d steps", most)
		assert.Len(t, refused, 6-want, "%d steps", most)
		for _, r := range refused {
			if !strings.Contains(r.Reason.Error(), "kernel calls and starts and ends of messages") {
				t.Errorf("%s: %v", r.Parallel, r.Reason)
			}
		}
	}
}

// TestAffordable: a mesh that by counts has too many steps is not planned on the graph. Where of many workers
// some are planned, those of the counts, of which there are fewer, have to fit.
func TestAffordable(t *testing.T) {
	p := planner(small(t))
	p.Options.Model, p.Options.Layers, p.Counts = "sage", 2, CountsOf(p.Graph)
	for _, grid := range []mesh.Mesh{
		{Stages: 1, Partitions: 2, Slices: 2}, {Stages: 1, Partitions: 12, Slices: 2},
	} {
		s := &search{Planner: p, all: []mesh.Mesh{grid, mesh.One}}
		require.NoError(t, s.byCounts(context.Background()))
		steps := 4 * s.counted[grid].Plan.Workers[0].Counts.Steps()
		if grid.Workers() > mostPlanned {
			_, _, _, planned := sums(&s.counted[grid].Plan)
			if steps = s.counted[grid].steps; planned > 2 {
				t.Errorf("by counts %d workers are planned", planned)
			}
		}
		begun := false
		say := func(string) { begun = true }
		if _, err := s.affordable(context.Background(), grid, steps-1, say); !refusal.Is(err) || begun {
			t.Errorf("%v: %v, begun %t", grid, err, begun)
		}
		_, err := s.affordable(context.Background(), grid, steps, say)
		if err != nil && !refusal.Is(err) || !begun { // the plan on the graph may still refuse it
			t.Errorf("%v: %v, begun %t", grid, err, begun)
		}
	}
}

// TestLimit: meshes that exceed the memory limit are left out.
func TestLimit(t *testing.T) {
	p := planner(small(t))
	p.Options.MemoryLimit = 1
	meshes, refused, err := p.Meshes(context.Background(), 2)
	if err != nil || len(meshes) > 0 || len(refused) != 3 {
		t.Errorf("%d meshes, %d refused, %v", len(meshes), len(refused), err)
	}
}

// TestLargeGraphs: the rates of a large graph are measured on a smaller one, with the settings that the large
// one allows: of edge features, values, several labels, splits, and relations to learn. So they are where a
// split gives negative targets.
func TestLargeGraphs(t *testing.T) {
	g := small(t)
	r := &g.Relations[0]
	r.Source, r.Name, r.Target, g.Types[0].Type = "v", "joins", "v", "v"
	r.Features.Columns, r.Features.Dense = 2, make([]float32, 2*len(r.Sources))
	g.Types[0].Splits = append(g.Types[0].Splits, g.Types[0].Splits[0])
	values, several, split := *g.Copy(), *g.Copy(), *g.Copy()
	values.Types[0].Labels = graph.Labels{Columns: 2, Values: make([]float32, 2*g.Types[0].Count)}
	several.Types[0].Labels = graph.Labels{Classes: 3, Multi: make([]float32, 3*g.Types[0].Count)}
	split.Relations = slices.Clone(g.Relations)
	split.Relations[0].EdgeSplit = &graph.EdgeSplit{
		Negatives: graph.TargetNegatives, Edges: [3][]int32{{0, 1, 2, 3}, {4, 5}, {6, 7}},
		Negative: [3][]int32{nil, {8, 9}, {10, 11}},
	}
	for name, c := range map[string]struct {
		g      *graph.Graph
		change func(*setting.Options)
	}{
		"edge features": {g, func(o *setting.Options) { o.Model, o.Split.Number = "gine", 1 }},
		"values": {&values, func(o *setting.Options) {
			o.Model, o.Loss, o.Metric = "gcn", "mae", "rmse"
		}},
		"several labels": {&several, func(o *setting.Options) { o.Model, o.Metric = "gcn", "roc-auc" }},
		"relation": {g, func(o *setting.Options) {
			o.Model, o.Task, o.OutFeatures, o.LinkRelation = "gcn", "link", 4, "v,joins,v"
		}},
		"negative targets": {&split, func(o *setting.Options) {
			o.Model, o.Task, o.OutFeatures = "gcn", "link", 4
		}},
	} {
		for _, work := range []float64{1, 2 * measuredWork} {
			p := planner(c.g)
			p.Options = train.Defaults()
			p.Options.Hidden = 8
			c.change(&p.Options)
			require.NoError(t, c.g.Check(), name)
			rates, err := p.rates(context.Background(),
				p.options(mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}), work,
				&Machine{Cores: 2, Sharers: 2, Threads: 1}, func(string) {})
			if err != nil || len(rates.Kernels) == 0 {
				t.Errorf("%s, work of %g: %v", name, work, err)
			}
		}
	}
}

// TestGrids: the meshes of 6 workers are those of all ways to write 6 as a product of three numbers, by hand:
// first those of one axis, and then those of two. Of one worker there is one.
func TestGrids(t *testing.T) {
	var got []string
	for _, grid := range grids(6) {
		got = append(got, setting.Axes(grid))
	}
	want := []string{
		"graph=6", "tensor=6", "pipeline=6", "graph=3,tensor=2", "graph=2,tensor=3",
		"graph=3,pipeline=2", "tensor=3,pipeline=2", "graph=2,pipeline=3", "tensor=2,pipeline=3",
	}
	assert.Equal(t, want, got)
	if single := grids(1); len(single) != 1 || single[0] != mesh.One {
		t.Errorf("%v", single)
	}
}

// TestFewer: kernels are measured on at most 8 workers, along the same axes.
func TestFewer(t *testing.T) {
	for grid, want := range map[mesh.Mesh]mesh.Mesh{
		{Stages: 1, Partitions: 4, Slices: 2}:    {Stages: 1, Partitions: 4, Slices: 2},
		{Stages: 1, Partitions: 128, Slices: 1}:  {Stages: 1, Partitions: 8, Slices: 1},
		{Stages: 1, Partitions: 100, Slices: 1}:  {Stages: 1, Partitions: 6, Slices: 1},
		{Stages: 4, Partitions: 32, Slices: 1}:   {Stages: 4, Partitions: 2, Slices: 1},
		{Stages: 16, Partitions: 16, Slices: 16}: {Stages: 2, Partitions: 2, Slices: 2},
	} {
		assert.Equal(t, want, fewer(grid), grid)
	}
}

// TestRates: by hand, a kernel takes its rate times its work; of widths that were not measured, the rate of
// the most similar ones; of a kernel that was not, the mean. Work beside kernels goes with their seconds and
// their calls.
func TestRates(t *testing.T) {
	r := Rates{Kernels: map[plan.Kernel]float64{
		{Name: "spmm", Widths: [2]int{64, 1}}:     1,
		{Name: "spmm", Widths: [2]int{16, 1}}:     2,
		{Name: "product", Widths: [2]int{8, 4}}:   3,
		{Name: "product", Widths: [2]int{80, 40}}: 4,
	}}
	withOverhead := Rates{Kernels: r.Kernels, Beside: .5, Call: 7}
	for _, c := range []struct {
		name string
		w    [2]int
		want float64
	}{
		{"spmm", [2]int{64, 1}, 1},
		{"spmm", [2]int{20, 1}, 2},
		{"spmm", [2]int{100, 1}, 1},
		{"product", [2]int{8, 4}, 3},
		{"product", [2]int{90, 40}, 4},
		{"fill", [2]int{2, 1}, 2.5},
	} {
		k := plan.Kernel{Name: c.name, Widths: c.w}
		calls := plan.Calls{Number: 3, Work: 10}
		assert.Equal(t, 10*c.want, r.Seconds(k, calls), k)
		assert.Equal(t, 15*c.want+3*7, withOverhead.Seconds(k, calls), k)
	}
}

// TestWhatRatesDependOn: kept rates stand for the graph, the settings of the kernels, the machine and the
// program. Where one of them changes they are measured anew, and where anything else changes they are not.
func TestWhatRatesDependOn(t *testing.T) {
	cache := machine.Cache{Folder: t.TempDir()}
	type asked struct {
		*Planner
		mesh    mesh.Mesh
		machine Machine
		work    float64
	}
	measured := func(ctx context.Context, change func(*asked)) (is bool, err error) {
		a := &asked{
			planner(small(t)),
			mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1},
			Machine{Cores: 4, Sharers: 2, Threads: 1},
			1,
		}
		a.Options.Model, a.Cache = "gcn", cache
		change(a)
		_, err = a.rates(ctx, a.options(a.mesh), a.work, &a.machine, func(string) { is = true })
		return is, err
	}
	edge := func(a *asked) { a.Graph.Relations[0].Sources[0]++ } // leads from another vertex
	large := func(a *asked) { a.work = 2 * measuredWork }
	for _, change := range []func(*asked){func(*asked) {}, large} {
		if is, err := measured(context.Background(), change); !is || err != nil {
			t.Fatal(is, err)
		}
	}
	ended, end := context.WithCancel(context.Background()) // nothing more is measured, and so kept
	end()
	for name, c := range map[string]struct {
		change func(*asked)
		anew   bool
	}{
		"nothing":              {func(*asked) {}, false},
		"the program":          {func(a *asked) { a.Cache.Folder += "2" }, true},
		"threads":              {func(a *asked) { a.machine.Threads = 2 }, true},
		"workers of a machine": {func(a *asked) { a.machine.Sharers = 1 }, true},
		"more than have cores": {func(a *asked) { a.machine.Sharers, a.machine.Cores = 9, 2 }, false},
		"links":                {func(a *asked) { a.machine.Sends = 5 }, false},
		"width":                {func(a *asked) { a.Options.Hidden = 16 }, true},
		"model":                {func(a *asked) { a.Options.Model = "sage" }, true},
		"precision":            {func(a *asked) { a.Options.Precision = "bf16" }, true},
		"mesh": {func(a *asked) {
			a.mesh = mesh.Mesh{Stages: 1, Partitions: 1, Slices: 2}
		}, true},
		"epochs":                {func(a *asked) { a.Options.Epochs++ }, false},
		"evaluations":           {func(a *asked) { a.Options.EvalEvery++ }, false},
		"patience":              {func(a *asked) { a.Options.Patience++ }, false},
		"layers beyond four":    {func(a *asked) { a.Options.Layers = 16 }, false},
		"fewer layers":          {func(a *asked) { a.Options.Layers = 3 }, true},
		"learning rate":         {func(a *asked) { a.Options.LR /= 2 }, false},
		"seed":                  {func(a *asked) { a.Options.Seed++ }, false},
		"time limit":            {func(a *asked) { a.Options.MaxTime = time.Nanosecond }, false},
		"memory limit":          {func(a *asked) { a.Options.MemoryLimit = 1 << 40 }, false},
		"weights to begin with": {func(a *asked) { a.Options.Init = "weights" }, false},
		"an edge":               {edge, true},
		"a large graph":         {large, false},
		"of it, an edge": {func(a *asked) {
			large(a)
			edge(a)
		}, false}, // another graph is measured in its place
		"of it, features": {func(a *asked) {
			large(a)
			a.Graph.Types[0].Features = graph.Features{Columns: 1, Dense: make([]float32, 300)}
		}, true},
		"of it, classes":         {func(a *asked) { large(a); a.Graph.Types[0].Labels.Classes++ }, true},
		"of it, the program":     {func(a *asked) { large(a); a.Cache.Folder += "2" }, true},
		"of it, a width":         {func(a *asked) { large(a); a.Options.Hidden = 16 }, true},
		"of it, workers at once": {func(a *asked) { large(a); a.machine.Sharers = 1 }, true},
	} {
		if anew, err := measured(ended, c.change); anew != c.anew || !anew && err != nil {
			t.Errorf("%s: measured anew %v, %v; want %v", name, anew, err, c.anew)
		}
	}
}

// TestLikeGraphs: by hand, 1e-3 of 10,000,000 vertices of degree 20 are 10,000, which 2^13.5 is next to among
// the powers of √2, as 2^4.5 is to 20. A graph of a tenth more vertices and edges has the same rates, one of
// twice as many has not, and no graph is measured on more vertices than it has.
func TestLikeGraphs(t *testing.T) {
	smaller := func(vertices int, degree float64, fraction float64) twin {
		p := planner(nil)
		p.Counts = random(vertices, degree)
		return p.smaller(fraction)
	}
	first := smaller(10_000_000, 20, 1e-3)
	assert.Equal(t, 11585, first.Vertices)
	assert.Near(t, 22.627, first.Degree, .001)
	assert.Equal(t, first, smaller(11_000_000, 20, 1e-3))
	assert.Equal(t, first, smaller(10_000_000, 22, 1e-3))
	assert.Equal(t, 23170, smaller(20_000_000, 20, 1e-3).Vertices)
	assert.Equal(t, 2500, smaller(2500, 20, 1).Vertices)
}

// TestBeside: by hand, of work beside kernels 2 s go with each call and half a second with each of kernels:
// 10 calls and 40 s take 40 s, and 8 calls and 4 s take 18 s. Where a smaller graph tells less than nothing
// for one of both, all goes with the other.
func TestBeside(t *testing.T) {
	observation := func(calls int, kernels, extra float64) *observed {
		e := &epoch{
			calls: plan.Kernels{{Name: "fill"}: {Number: calls}}, inKernels: kernels, took: kernels + extra,
		}
		return &observed{epochs: []*epoch{e, e}}
	}
	for _, c := range []struct {
		few         *observed
		call, share float64
	}{
		{observation(8, 4, 18), 2, .5},
		{observation(8, 4, 100), 4, 0},
		{observation(8, 4, 1), 0, 1},
		{observation(1, 4, 4), 0, 1}, // has as many calls for each second
	} {
		call, share := divide(observation(10, 40, 40), c.few)
		assert.Near(t, c.call, call, 1e-9, "a call")
		assert.Near(t, c.share, share, 1e-9, "a second")
	}
}

// TestPossible: what no measurement gives is not taken from a file.
func TestPossible(t *testing.T) {
	for text, want := range map[string]bool{
		`{"kernels":{"fill 1 1":1}}`: true, `{"kernels":{}}`: false, `{}`: false, `null`: false,
		`{"kernels":{"fill 0 1":1}}`: false, `{"kernels":{"fill 1 1":-1}}`: false,
		`{"kernels":{"fill 1 1":1},"beside":-1}`: false, `{"kernels":{"fill 1 1":1},"call_seconds":-1}`: false,
	} {
		var r Rates
		require.NoError(t, json.Unmarshal([]byte(text), &r), text)
		assert.Equal(t, want, r.possible(), text)
	}
}
