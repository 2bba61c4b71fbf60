package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel/machine"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

func random(vertices int, degree float64) *Counts {
	return &Counts{Symmetric: true, Mixing: 1, Whole: partition.Whole{
		Vertices: vertices, Edges: int64(degree * float64(vertices)),
		Types: []partition.WholeType{{Vertices: vertices, FeatureColumns: 16}},
		WholeFrame: partition.WholeFrame{
			Classes: 5, Metric: "accuracy",
			Splits: []graph.SplitSizes{{Train: vertices / 2, Val: vertices / 4, Test: vertices / 4}},
		},
	}}
}

// TestHaloRows: by hand, of 4 edges of a vertex 2 lead into each of two partitions in the mean: none with the
// probability e⁻². Of half of them one does. The mixing of a measured halo gives that halo.
func TestHaloRows(t *testing.T) {
	c := random(1000, 4)
	assert.Near(t, 0.8646647, c.HaloRows(2), 1e-6, "two partitions")
	assert.Near(t, 1.8963617, c.HaloRows(4), 1e-6, "four partitions") // 3·(1 − 1/e)
	c.Mixing = .5
	assert.Near(t, 0.6321206, c.HaloRows(2), 1e-6, "half of the edges")
	if !c.Measured(8, .75) || math.Abs(c.HaloRows(8)-.75) > 1e-9 || c.Mixing > .3 {
		t.Errorf("measured .75: %v of a mixing of %v", c.HaloRows(8), c.Mixing)
	}
	for _, rows := range []float64{-.1, 1, math.NaN()} { // two partitions cannot receive every row
		before := c.Mixing
		if c.Measured(2, rows) || c.Mixing != before {
			t.Errorf("%v halo rows are possible", rows)
		}
	}
}

// TestRandomGraphs: of a uniform graph random partitions receive what the formula says, and METIS finds
// partitions that receive less, but not by half.
func TestRandomGraphs(t *testing.T) {
	o := generate.Default(generate.Uniform)
	o.Vertices, o.Degree, o.Features = 6000, 10, 1
	g, err := generate.Graph(o)
	require.NoError(t, err)
	c := CountsOf(g)
	for _, k := range []int{2, 5} {
		for method, least := range map[string]float64{"random": .98, "metis": .5} {
			a, err := partition.Assign(context.Background(), g, partition.Options{K: k, Method: method})
			require.NoError(t, err)
			shares, err := partition.Split(g, a)
			require.NoError(t, err)
			ratio := (shares[0].Whole.Statistics.Replication() - 1) / c.HaloRows(k)
			if ratio < least || ratio > 1.02 {
				t.Errorf("%s, %d partitions: %.3f of the formula's halo rows", method, k, ratio)
			}
		}
	}
}

// TestAlike: the first of equal partitions has its part of the edges, of which the cut is from other
// partitions, and from as many rows of each as the halo says. No counts that contradict each other pass.
func TestAlike(t *testing.T) {
	c := random(4000, 10)
	c.Mixing = .3
	a := c.within(4, 4000)
	r := a.edges()
	assert.Near(t, 10*1000, float64(len(r.Sources)), 5, "edges")
	cut, near, rows := 0, 0, map[int32]bool{}
	for row := range 1000 {
		sources := r.Sources[r.Indptr[row]:r.Indptr[row+1]]
		if !slices.IsSorted(sources) {
			t.Fatalf("row %d: %v", row, sources)
		}
		for _, s := range sources {
			apart := min(math.Abs(float64(s)-float64(row)), 1000-math.Abs(float64(s)-float64(row)))
			if s >= 1000 {
				cut++
				rows[s] = true
			} else if apart <= 4 {
				near++
			}
		}
	}
	assert.Near(t, 10*1000*.3*3/4, float64(cut), 1, "cut")
	assert.Near(t, 10*1000*.7, float64(near), 100, "edges between neighbours")
	assert.Equal(t, 3*a.Halo(), len(rows), "halo rows")
	into := map[int]bool{} // rows with edges from the second partition
	a.join(func(row, source int) {
		if source >= 1000 && source < 2000 {
			into[row] = true
		}
	})
	assert.Equal(t, a.Halo(), len(into), "rows that read another partition")
	tight, read := c.within(4, 4000), map[int]bool{} // 100.5 rows of each pair, and hardly as many edges
	tight.CutShare, tight.HaloRows = 1206./float64(tight.Edges), 1206./4000
	require.NoError(t, tight.Check())
	tight.join(func(_, source int) {
		if source >= 1000 {
			read[source] = true
		}
	})
	assert.Equal(t, 3*101, len(read), "halo rows, rounded up")
	for name, change := range map[string]func(*Alike){
		"more rows than cut edges":       func(a *Alike) { a.CutShare = .01 },
		"more rows than the others have": func(a *Alike) { a.CutShare, a.FarShare, a.HaloRows = 1, 0, 3.5 },
		"no partition":                   func(a *Alike) { a.Partitions = 0 },
		"more partitions than vertices":  func(a *Alike) { a.Partitions = 4001 },
		"more edges than all":            func(a *Alike) { a.FarShare = .9 },
	} {
		a := c.within(4, 4000)
		require.NoError(t, a.Check())
		change(a)
		assert.Refused(t, a.Check(), "no such partitions exist", name)
	}
}

// TestExtrapolate: a line through two plans, by hand: 10 bytes and 2 for each of the vertices.
func TestExtrapolate(t *testing.T) {
	spmm := plan.Kernel{Name: "spmm", Widths: [2]int{2, 1}}
	planOf := func(n int64) *plan.Plan {
		w := plan.Worker{
			Tensors: 10 + 2*n, Graph: n, Kinds: []int64{n}, Costs: []float64{float64(n)}, Checkpoint: 8 + 4*n,
			Messages: 3*n + 1,
		}
		w.Sent.Halo.Bytes, w.Sent.Halo.Messages, w.Sent.Layout.Bytes = 3*n, 6, 2*n
		w.Counts = plan.Counts{Rows: int(n), Edges: 5 * n, Remote: 3 * n}
		w.Counts.Kernels = plan.Kernels{spmm: {
			Number: 4, Work: 7 * float64(n), Bytes: 9 * float64(n), Operations: 5 * float64(n),
		}}
		w.Counts.Traffic[0].Bytes = 3 * n
		return &plan.Plan{Workers: []plan.Worker{w}}
	}
	got, want := plan.Extrapolate(planOf(100), planOf(150), 18), planOf(1000)
	assert.Equal(t, want.Workers, got.Workers)
	assert.Equal(t, []int64{2010}, got.PeakTensorBytes)
	assert.Equal(t, int64(3000), got.Sent[0].Halo.Bytes)
}

// TestMemoryByCounts: where two smaller graphs stand for a large one, memory and bytes of every axis are
// within a few per cent of its own plan, on random partitions. So is a pipeline of the counts at full size.
func TestMemoryByCounts(t *testing.T) {
	o := generate.Default(generate.Uniform)
	o.Vertices, o.Degree, o.Features, o.Classes = 90_000, 5, 16, 5
	g, err := generate.Graph(o)
	require.NoError(t, err)
	g.Relations[0].Symmetric = true // as its store says
	c := CountsOf(g)
	for _, s := range []struct {
		parallel, model, precision string
	}{
		{"graph=2", "sage", "f32"},
		{"graph=2", "gat", "bf16"},
		{"tensor=2", "gcn", "f32"},
		{"tensor=16", "sage", "f32"},
		{"pipeline=2", "gcn", "f32"},
	} {
		name, c := fmt.Sprint(s), c
		if strings.HasPrefix(s.parallel, "tensor=") && s.parallel != "tensor=2" {
			c = random(600_000, 5) // messages of slices reach their full size in between
		}
		options := train.Defaults()
		options.Parallel, options.Model, options.Hidden = s.parallel, s.model, 32
		options.Layers, options.Threads, options.Precision = 3, 1, s.precision
		if s.parallel == "graph=2" {
			options.Partition = "random"
		}
		r, err := options.Resolve()
		require.NoError(t, err, name)
		if c.Vertices <= int(further*float64(c.rows(r.Mesh, false)*r.Mesh.Partitions)) {
			t.Fatalf("%s: the graph is planned as it is", name)
		}
		counted, err := c.plan(context.Background(), r, &Machine{})
		require.NoError(t, err, name)
		job, alike := &train.Job{Graph: g, Options: options}, false
		if r.Mesh.Stages > 1 || r.Mesh.Slices > 2 { // METIS would take seconds, and so would all workers
			job, err = c.within(1, c.Vertices).Job(options)
			require.NoError(t, err, name)
			alike = true
		}
		(&Machine{}).prepare(job, r.Workers)
		real, err := job.PlanWith(context.Background(), plan.Asks{Counts: true, Alike: alike})
		require.NoError(t, err, name)
		for k := range real.PeakTensorBytes {
			assert.Near(t, 1, float64(counted.PeakTensorBytes[k])/float64(real.PeakTensorBytes[k]), .02, name)
			assert.Near(t, 1, float64(counted.GraphBytes[k])/float64(real.GraphBytes[k]), .05, name)
			if sent := real.Sent[k].Bytes(); sent > 0 {
				assert.Near(t, 1, float64(counted.Sent[k].Bytes())/float64(sent), .03, name)
			}
		}
	}
}

// TestBytesByCounts: by hand, of GraphSAGE with two layers the second sends rows of 5 classes as float32,
// forward, and their gradients backward. The features are constant, and so is their aggregation. The first
// worker writes into checkpoints, and copies before, what all have: each parameter now and at the best epoch,
// and its two moments, as float32.
func TestBytesByCounts(t *testing.T) {
	const vertices, k = 10_000_000, 16
	c := random(vertices, 20)
	o := train.Defaults()
	o.Parallel, o.Model = "graph=16", "sage"
	r, err := o.Resolve()
	require.NoError(t, err)
	p, err := c.plan(context.Background(), r, &Machine{})
	require.NoError(t, err)
	all := int64(0)
	for _, sent := range p.Sent {
		all += sent.Halo.Bytes
	}
	assert.Near(t, 1, float64(all)/(2*4*5*c.HaloRows(k)*vertices), .001, "bytes")
	parameters := 2*16*int64(o.Hidden) + int64(o.Hidden) + 2*5*int64(o.Hidden) + 5
	assert.Equal(t, 4*4*parameters, p.Workers[0].Checkpoint, "bytes of a checkpoint")
}

// TestLoopByCounts: the memory of the passes of a loop on a random graph, and what each sends, are by counts
// about those of its partitions, and groups of samples take as much each. Where the graph is so large that
// smaller ones stand for it, the bytes that partitions send are those of the formula: rows of 8 columns,
// forward and back, of the features and of the hidden layer, as the features are given and differentiable.
func TestLoopByCounts(t *testing.T) {
	ctx, o := context.Background(), generate.Default(generate.Uniform)
	o.Vertices, o.Degree, o.Features, o.Classes = 12_000, 6, 8, 5
	g, err := generate.Graph(o)
	require.NoError(t, err)
	g.Relations[0].Symmetric = true // as its store says
	loop := plan.Loop{
		Passes: 3, Features: []worker.InputValues{{Values: []float32{}, Differentiable: true}},
	}
	resolve := func(parallel string) *setting.Resolved {
		options := train.Defaults()
		options.Parallel, options.Threads = parallel, 1
		options.Program.Path = filepath.Join(t.TempDir(), "program.json")
		require.NoError(t, os.WriteFile(options.Program.Path, []byte(`{"version":1,"class":"Net","parameters":[
			{"name":"w","shape":[8,8],"trained":true}],"operations":[
			{"op":"features","shape":[8]},
			{"op":"gather","in":[0],"end":"source"},{"op":"scatter","in":[1],"reduce":"mean"},
			{"op":"parameter","name":"w"},{"op":"linear","in":[2,3]},{"op":"tanh","in":[4]},
			{"op":"gather","in":[5],"end":"source"},{"op":"scatter","in":[6],"reduce":"mean"}],"output":7}`), 0o666))
		require.NoError(t, options.ForLoop())
		if !strings.HasPrefix(parallel, "tensor") {
			options.Partition = "random"
		}
		r, err := options.Resolve()
		require.NoError(t, err)
		return r
	}
	for _, parallel := range []string{"graph=2", "tensor=2", "graph=2,samples=2"} {
		r := resolve(parallel)
		counted, err := CountsOf(g).Loop(ctx, r, loop)
		require.NoError(t, err)
		real, err := (&train.Job{Graph: g, Options: r.Options}).PlanPasses(ctx, plan.Asks{Loop: &loop})
		require.NoError(t, err)
		assert.Equal(t, r.Workers, len(counted.Workers), parallel)
		for k := range real.Workers {
			near := func(want, got int64, share float64) {
				assert.Near(t, 1, float64(got)/float64(want), share, parallel)
			}
			near(real.PeakTensorBytes[k], counted.PeakTensorBytes[k], .02)
			near(real.GraphBytes[k], counted.GraphBytes[k], .05)
			near(real.Sent[k].Bytes(), counted.Sent[k].Bytes(), .02)
		}
		r.MemoryLimit = setting.Bytes(counted.PeakTensorBytes[0] / 2)
		_, err = CountsOf(g).Loop(ctx, r, loop)
		assert.Refused(t, err, "raise the limit to", parallel)
	}
	const vertices, k, samples = 10_000_000, 64, 8
	c := random(vertices, 20)
	c.Types[0].FeatureColumns = 8
	p, err := c.Loop(ctx, resolve("graph=64,samples=8"), loop)
	require.NoError(t, err)
	all := int64(0)
	for _, sent := range p.Sent {
		all += sent.Halo.Bytes
	}
	assert.Near(t, 1, float64(all)/(4*4*8*c.HaloRows(k)*vertices*samples), .001, "bytes")
}

// TestByCounts: without a graph every mesh is predicted by counts, and a memory limit holds. Of a graph as
// many are planned as asked for, and the fastest of all is one of them. One that is cancelled returns what it
// has found.
func TestByCounts(t *testing.T) {
	p := planner(small(t))
	p.Counts, p.Cache = CountsOf(p.Graph), machine.Cache{Folder: t.TempDir()}
	g := p.Graph
	p.Graph = nil
	meshes, refused, err := p.Meshes(context.Background(), 4)
	require.NoError(t, err)
	assert.Len(t, meshes, 6)
	assert.Len(t, refused, 0)
	for _, m := range meshes {
		if !m.ByCounts || !(m.Times.Epoch > 0) || m.PeakTensorBytes() == 0 || m.SentBytes() == 0 {
			t.Errorf("%s: %+v", m.Parallel, m.Times)
		}
	}
	p.Options.MemoryLimit = setting.Bytes(meshes[0].Plan.PeakTensorBytes[0] / 3)
	if _, refused, err = p.Meshes(context.Background(), 4); err != nil || len(refused) == 0 {
		t.Errorf("%d refused, %v", len(refused), err)
	}
	p.Options.MemoryLimit = 0

	// On such links bytes tell which mesh is fastest: another one than that of partitions, which comes first.
	p.Graph, p.Exactly, p.Machine.Sends, p.Machine.Receives = g, 1, 1e3, 1e3
	found := 0
	p.Found = func(m, counted *Mesh) {
		if found++; m.ByCounts || counted == nil || !counted.ByCounts || m.Parallel != counted.Parallel {
			t.Errorf("%+v, by counts %+v", m, counted)
		}
	}
	meshes, _, err = p.Meshes(context.Background(), 4)
	require.NoError(t, err)
	on := 0
	for _, m := range meshes {
		if !m.ByCounts {
			on++
		}
	}
	if on < 2 || on != found || len(meshes) != 6 || meshes[0].ByCounts {
		t.Errorf("%d of %d meshes are planned on the graph, %d told; the fastest: %+v", on, len(meshes), found,
			meshes[0])
	}

	ended := errors.New("ended")
	ctx, end := context.WithCancelCause(context.Background())
	p.Found = func(*Mesh, *Mesh) { end(ended) }
	p.Exactly = 0
	meshes, _, err = p.Meshes(ctx, 4)
	if !errors.Is(err, ended) || len(meshes) != 6 {
		t.Errorf("%d meshes, %v", len(meshes), err)
	}
}

// TestCancelledByCounts: a plan by counts ends once the search is cancelled. What was found before is
// returned.
func TestCancelledByCounts(t *testing.T) {
	p := planner(nil)
	p.Counts, p.Cache = random(3000, 10), machine.Cache{Folder: t.TempDir()}
	meshes, _, err := p.Meshes(context.Background(), 4) // whose rates are kept
	require.NoError(t, err)
	assert.Len(t, meshes, 6)
	ended := errors.New("ended")
	ctx, end := context.WithCancelCause(context.Background())
	p.Progress = func(stage string, _, _ int64) {
		if strings.HasPrefix(stage, "mesh 2 of 6") && strings.HasSuffix(stage, "planning it by counts") {
			end(ended)
		}
	}
	meshes, _, err = p.Meshes(ctx, 4)
	if !errors.Is(err, ended) || len(meshes) != 1 {
		t.Errorf("%d meshes, %v", len(meshes), err)
	}
}

// TestMeasuredHalo: partitions of a ring receive hardly any rows. A mesh that a memory limit refuses by the
// counts of a random graph is possible by those that know that.
func TestMeasuredHalo(t *testing.T) {
	const vertices, reach = 3000, 4
	o := generate.Default(generate.Uniform)
	o.Vertices, o.Degree, o.Features, o.Classes = vertices, 2, 8, 3
	g, err := generate.Graph(o)
	require.NoError(t, err)
	var e graph.Edges
	for v := range int32(vertices) {
		for d := int32(1); d <= reach; d++ {
			e.Source = append(e.Source, v, (v+d)%vertices)
			e.Target = append(e.Target, (v+d)%vertices, v)
		}
	}
	g.Relations[0], err = graph.NewRelation(vertices, e)
	require.NoError(t, err)
	p := planner(g)
	p.Options.Model, p.Options.Hidden, p.Options.KeepHalo = "sage", 8, true
	p.Options.Recompute = setting.RecomputeNone
	p.Counts, p.Exactly, p.Cache = CountsOf(g), 1, machine.Cache{Folder: t.TempDir()}
	grid := mesh.Mesh{Stages: 2, Partitions: 2, Slices: 1}
	need := func(mixing float64) (most int64) {
		r, err := p.resolve(grid)
		require.NoError(t, err)
		p.Counts.Mixing = mixing
		all, err := p.Counts.plan(context.Background(), r, &p.Machine)
		require.NoError(t, err)
		for i, tensors := range all.PeakTensorBytes {
			most = max(most, tensors+all.GraphBytes[i])
		}
		return most
	}
	few, many := need(.01), need(1)
	if many < few*3/2 {
		t.Fatalf("%d bytes with few halo rows, and %d with many", few, many)
	}
	p.Options.MemoryLimit = setting.Bytes(few + (many-few)/2)
	meshes, refused, err := p.Meshes(context.Background(), 4)
	require.NoError(t, err)
	if !slices.ContainsFunc(meshes, func(m Mesh) bool { return m.Settings.Mesh == grid }) {
		t.Errorf("with a mixing of %.2f %v are refused", p.Counts.Mixing, refused)
	}
}

// TestEdgeLabelsByCounts: what labels of edges take is planned by counts to the byte of a run on a graph of
// these counts, and on random partitions within a few per cent of a graph's own plan.
func TestEdgeLabelsByCounts(t *testing.T) {
	labels := map[string]partition.RelationFrame{
		"classes": {Classes: 3}, "several": {Classes: 4, SeveralLabels: true}, "values": {ValueColumns: 2},
	}
	for kind, l := range labels {
		l.Column = "fraud"
		c := random(3000, 5)
		c.EdgeColumns, c.Classes, c.Splits, c.Metric = 2, 0, nil, ""
		edges := int(c.Edges)
		l.Splits = []graph.SplitSizes{{Train: edges / 2, Val: edges / 4, Test: edges / 4}}
		c.Frames = []partition.RelationFrame{l}
		for _, parallel := range []string{"", "tensor=2", "graph=2"} {
			name := fmt.Sprint(kind, " ", parallel)
			o := train.Defaults()
			o.EdgeLabel, o.Parallel, o.Model, o.Hidden, o.Threads = l.Column, parallel, "sage", 8, 1
			o.Epochs, o.EvalEvery, o.Recompute = 3, 1, setting.RecomputeNone
			o.CheckpointEvery = setting.Interval{Epochs: 1}
			if parallel == "graph=2" {
				o.Partition = "random"
			}
			r, err := o.Resolve()
			require.NoError(t, err, name)
			counted, err := c.plan(t.Context(), r, &Machine{Sharers: r.Workers})
			require.NoError(t, err, name)
			if parallel != "graph=2" {
				job, err := c.within(1, c.Vertices).Job(o)
				require.NoError(t, err, name)
				job.Checkpoints = &train.Checkpoints{Path: filepath.Join(t.TempDir(), "checkpoints")}
				run, err := job.Run(t.Context())
				require.NoError(t, err, name)
				assert.Equal(t, run.PeakTensorBytes, counted.PeakTensorBytes, name)
				assert.Equal(t, run.GraphBytes, counted.GraphBytes, name)
				continue
			}
			options := generate.Default(generate.Uniform)
			options.Vertices, options.Degree, options.Features, options.Classes = 3000, 5, 16, 5
			g, err := generate.Graph(options)
			require.NoError(t, err, name)
			e := &g.Relations[0]
			e.Symmetric, e.Features.Columns = true, 2
			e.Features.Dense = make([]float32, 2*len(e.Sources))
			e.Labels = labelsOf(l.Frame(), len(e.Sources)).Named(l.Column)
			require.NoError(t, e.MakeSplits("random:50/25/25", 1, 1), name)
			real, err := (&train.Job{Graph: g, Options: o}).PlanWith(t.Context(), plan.Asks{Counts: true})
			require.NoError(t, err, name)
			for k, peak := range real.PeakTensorBytes {
				assert.Near(t, 1, float64(counted.PeakTensorBytes[k])/float64(peak), .05, name)
				assert.Near(t, 1, float64(counted.Sent[k].Bytes())/float64(real.Sent[k].Bytes()), .05, name)
			}
		}
	}
}

// TestPeriodsByCounts: counts tell of no periods, which is refused only where edges pass messages by these.
func TestPeriodsByCounts(t *testing.T) {
	for _, rule := range []string{"", "time:day=5,8"} {
		c := random(3000, 5)
		c.Frames = []partition.RelationFrame{{Column: "fraud", Classes: 2, Rule: rule}}
		for passes, refused := range map[string]bool{
			task.PassAll: false, task.PassEarlier: true, task.PassAuto: rule != "",
		} {
			o := train.Defaults()
			o.EdgeLabel, o.PassMessages = "fraud", passes
			err := c.describe(&o)
			assert.Equal(t, refused, err != nil, "split %q, pass messages %s: %v", rule, passes, err)
		}
	}
}

// TestHopelessMeshes: each worker of a pipeline has at least the bound in its graph, and at least half of it
// in edges where vertices have many. With less memory than that the mesh is refused as its plan would be.
func TestHopelessMeshes(t *testing.T) {
	for _, model := range []string{"gcn", "mlp"} {
		for grid, edges := range map[mesh.Mesh]bool{
			{Stages: 2, Partitions: 1, Slices: 1}: true, {Stages: 2, Partitions: 2, Slices: 1}: true,
			{Stages: 2, Partitions: 1, Slices: 2}: true, {Stages: 1, Partitions: 2, Slices: 1}: false,
		} {
			c := random(20_000, 40)
			o := on(t, grid)
			o.Model = model
			r, err := o.Resolve()
			require.NoError(t, err)
			p, err := c.ofVertices(t.Context(), c.Vertices, o, plan.Asks{}, r, &Machine{})
			require.NoError(t, err)
			least, has := c.least(r), slices.Min(p.GraphBytes)
			if !edges && least != 0 || edges && (least > has || least < has/3) {
				t.Errorf("%s on %v: the bound is %d of %d bytes", model, grid, least, has)
			}
			s := &search{Planner: &Planner{Options: o, Counts: c}}
			for memory, refused := range map[int64]bool{least + 1: false, least - 1: edges, 0: false} {
				s.Options.MemoryLimit = setting.Bytes(max(0, memory))
				r.MemoryLimit = s.Options.MemoryLimit
				err := s.hopeless(s.newMesh(r))
				assert.Equal(t, refused, err != nil, "%s on %v, %d bytes: %v", model, grid, memory, err)
			}
		}
	}
}

// TestHopelessAreRefusedAnyway: the meshes and their order are those that plans of all meshes have.
func TestHopelessAreRefusedAnyway(t *testing.T) {
	p := planner(nil)
	p.Counts, p.Machine = random(20_000, 40), Machine{Sharers: 4, Card: Published("h100")}
	p.Options.Device, p.Options.Layers, p.Options.Hidden = setting.AllCards, 4, 4
	p.Options.MemoryLimit, p.Options.Chunks = 6_000_000, 0
	meshes, refused, err := p.Meshes(t.Context(), 4)
	require.NoError(t, err)
	var got, want []string
	for _, m := range meshes {
		got = append(got, m.Parallel)
	}
	hopeless := 0
	var all []*Mesh
	for _, grid := range grids(4) {
		r, err := p.resolve(grid)
		require.NoError(t, err)
		m := p.newMesh(r)
		for _, with := range saving(r) {
			m.Plan, err = p.Counts.plan(t.Context(), with, &p.Machine)
			require.NoError(t, err)
			m.Plan.Cards = p.Machine.Card.forWorker(&r.Options, 1)
			if err = p.checkLimits(m); err == nil {
				break
			}
		}
		if (&search{Planner: p}).hopeless(p.newMesh(r)) != nil {
			hopeless++
		}
		if err == nil {
			all = append(all, p.Predict(r, m.Plan))
		}
	}
	slices.SortStableFunc(all, func(a, b *Mesh) int { return cmp.Compare(a.Times.Epoch, b.Times.Epoch) })
	for _, m := range all {
		want = append(want, m.Parallel)
	}
	assert.Equal(t, want, got)
	if hopeless == 0 || len(want) == 0 || len(refused) < hopeless {
		t.Errorf("%d meshes are hopeless, %d refused, %v possible", hopeless, len(refused), want)
	}
}
