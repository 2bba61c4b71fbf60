package train

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/worker"
)

// TestPipelineRefuses: what a pipeline cannot do is refused, and the error says what would work, for any way
// of giving the mesh.
func TestPipelineRefuses(t *testing.T) {
	g := tangled(t)
	layer := gnn.BlockSpec{Cost: gnn.Cost{Vertex: 1, Edge: 1}}
	grid := func(stages, partitions, slices int) mesh.Mesh {
		return mesh.Mesh{Stages: stages, Partitions: partitions, Slices: slices}
	}
	for _, c := range []struct {
		mesh  mesh.Mesh
		set   string
		model []gnn.BlockSpec // nil: the named one
		want  string
	}{
		{grid(3, 1, 1), "", nil, "and the model has 2; take --parallel graph=3"},
		{
			grid(4, 1, 1), "",
			[]gnn.BlockSpec{layer, layer},
			"and the model has 2; take --parallel graph=2,pipeline=2",
		},
		{
			grid(2, 1, 2), "aggregation-chunks 3", nil,
			"--aggregation-chunks 3 on the mesh tensor=2,pipeline=2: a chunk of the pipeline is aggregated at once; leave it out, or take more chunks with --chunks N",
		},
		{grid(2, 2, 1), "norm batch", nil, "take --norm layer, or --chunks 2: a chunk for each partition"},
		{
			grid(2, 2, 1), "norm graph", nil,
			"norm graph on the mesh graph=2,pipeline=2: its mean is over all vertices",
		},
		{
			grid(2, 2, 1), "aggregation-order transform-first", nil,
			"leave it out, or take --chunks 2: a chunk for each partition",
		},
		{grid(2, 2, 1), "norm batch, chunks 4", nil, "take --norm layer, or --chunks 2"},
		{grid(2, 2, 1), "chunks 5", nil, "take --chunks 4 or 6"},
		{grid(2, 2, 1), "chunks 1", nil, "take --chunks 2 or more"},
		{grid(2, 1, 1), "chunks 65536", nil, "give at most "},
		{grid(2, 2, 1), "prefetch 3", nil, "the pipeline axis of the mesh graph=2,pipeline=2 does without it"},
		{grid(1, 2, 1), "chunks 4", nil, "--chunks 4: belongs to the pipeline axis of a mesh"},
	} {
		t.Run(c.want, func(t *testing.T) {
			o := Defaults()
			o.Partition = partition.Random
			if c.mesh.Partitions == 1 {
				o.Partition = "auto"
			}
			o = apply(o, c.set)
			j := &Job{Graph: g, Options: o, Mesh: c.mesh}
			if c.model != nil {
				j.Model = func(_, _ int) []gnn.BlockSpec { return c.model }
			}
			_, runErr := j.Run(context.Background())
			_, planErr := j.Plan(context.Background())
			for _, err := range []error{runErr, planErr} {
				assert.Refused(t, err, c.want)
			}
		})
	}
}

// reported is an engine whose training passes report given times.
type reported struct {
	engine.Engine
	report func()
}

func (r reported) Forward(c engine.Call) engine.Pass {
	return reportedPass{r.Engine.Forward(c), r.report}
}

type reportedPass struct {
	engine.Pass
	report func()
}

func (p reportedPass) Backward(roots ...autograd.Root) []*tensor.Matrix {
	defer p.report()
	return p.Pass.Backward(roots...)
}

// TestStageSummary: a stage's times are the average of its workers', and its bytes their sum.
func TestStageSummary(t *testing.T) {
	o := Defaults()
	o.Model, o.Layers, o.Hidden, o.Threads, o.Epochs, o.Chunks, o.Partition = "gcn", 4, 8, 1, 2,
		4, partition.Random
	j := &Job{Graph: tangled(t), Options: o, Mesh: mesh.Mesh{Stages: 2, Partitions: 2, Slices: 1}}
	j.Engine = func(c engine.Config) (engine.Engine, error) {
		e, err := engine.New(c)
		return reported{e, func() {
			rank := time.Duration(c.Groups.World.Rank())
			c.Stage.Report(engine.StageReport{
				Compute: rank * time.Second, Bubble: 2 * time.Second, Wait: 4 * rank * time.Second,
			})
		}}, err
	}
	r := mustRun(t, j)
	want := []worker.StageSummary{
		{
			Stage: worker.Stage{Workers: []int{0, 1}, Blocks: []int{0, 2}}, Compute: .5, Bubble: 2, Wait: 2,
			Sent: r.SentBytes[0] + r.SentBytes[1],
		},
		{
			Stage: worker.Stage{Workers: []int{2, 3}, Blocks: []int{2, 4}}, Compute: 2.5, Bubble: 2, Wait: 10,
			Sent: r.SentBytes[2] + r.SentBytes[3],
		},
	}
	work := 0.0
	for s := range r.Stages {
		work += r.Stages[s].Work
		r.Stages[s].Work = 0
		if r.Stages[s].Bubble < 2 {
			t.Errorf("stage %d: %v s until the end of the epoch", s, r.Stages[s].Bubble)
		}
		r.Stages[s].Bubble = 2
	}
	if diff := cmp.Diff(want, r.Stages); diff != "" || work < .999 || work > 1.001 ||
		r.StageImbalance != 2.5/1.5 {
		t.Errorf("%s; work %v, imbalance %v", diff, work, r.StageImbalance)
	}
}

// TestPlannedStages: a plan tells the stages and chunks, and the formula's number of bytes at the boundaries.
func TestPlannedStages(t *testing.T) {
	g := tangled(t)
	o := apply(Defaults(), "model gcnii, layers 6, hidden 8, threads 1, parallel pipeline=3, chunks 5")
	p, err := (&Job{Graph: g, Options: o}).Plan(context.Background())
	require.NoError(t, err)
	assert.Equal(t, [][]int{{0, 3}, {3, 5}, {5, 8}},
		[][]int{p.Stages[0].Blocks, p.Stages[1].Blocks, p.Stages[2].Blocks}, "cut at")
	sent := worker.SumOf(p.Sent).Stage.Bytes
	assert.Equal(t, int64(2*2*g.Vertices()*2*o.Hidden*4), sent, "bytes between stages")
	c := p.Workers[0].Chunks
	if c.Each != 5 || c.Wanted != 5 || c.Columns != 2*2*o.Hidden || c.Bytes != sent || c.Least > c.Most ||
		c.Cut > c.Edges || c.Cut == 0 {
		t.Errorf("%+v", c)
	}
}

// TestChunksAreMadeOnce: the workers of a job on a stored graph share its chunks. A cancelled plan leaves
// none.
func TestChunksAreMadeOnce(t *testing.T) {
	for _, rule := range []string{"", "random:60/20/20"} {
		t.Run(rule, func(t *testing.T) { chunksAreMadeOnce(t, rule) })
	}
}

func chunksAreMadeOnce(t *testing.T, rule string) {
	t.Helper()
	o := apply(Defaults(), "model gcn, layers 4, parallel pipeline=4, threads 1, epochs 1")
	o.Split.Rule = rule
	store := filepath.Join(t.TempDir(), "g")
	require.NoError(t, tangled(t).Write(store))
	g, err := graph.Open(store)
	require.NoError(t, err)
	defer g.Close()
	j := &Job{Graph: g, Options: o}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = j.Plan(ctx)
	assert.ErrorIs(t, err, context.Canceled, "planned")
	divisions := map[*int32]bool{}
	var mu sync.Mutex
	j.Engine = func(c engine.Config) (engine.Engine, error) {
		mu.Lock() // the workers make their engines at the same time
		divisions[&c.Stage.Chunks[0]] = true
		mu.Unlock()
		return engine.New(c)
	}
	_, err = j.Plan(context.Background())
	require.NoError(t, err)
	r := mustRun(t, j)
	_, err = j.Predict(context.Background(), r.Weights, Logits)
	require.NoError(t, err)
	assert.Len(t, divisions, 1, "made")
	other := o
	other.ChunkMethod = partition.Merged
	j.Options = other
	mustRun(t, j)
	assert.Len(t, divisions, 2, "with another method there")
}

// TestChunksAreOfTheGraph: a job on another store, which the system maps where an earlier one was, makes its
// own chunks.
func TestChunksAreOfTheGraph(t *testing.T) {
	o := apply(Defaults(), "model gcn, hidden 8, threads 1, epochs 5, parallel pipeline=2, chunks 4")
	j := &Job{Options: o}
	for seed := range uint64(2) {
		written, err := generate.Graph(generate.Options{
			Kind: generate.SBM, Vertices: 3000, Degree: 10, Features: 16, Classes: 4, Seed: seed + 1,
		})
		require.NoError(t, err)
		store := filepath.Join(t.TempDir(), "g")
		require.NoError(t, written.Write(store))
		g, err := graph.Open(store)
		require.NoError(t, err)
		j.Graph = g
		want := mustRun(t, &Job{Graph: g, Options: o}).Losses
		assert.Equal(t, want, mustRun(t, j).Losses, "seed %d", seed+1)
		require.NoError(t, g.Close())
	}
}

// TestChunksOfProcesses: all processes get the chunks that the first one makes, or its error.
func TestChunksOfProcesses(t *testing.T) {
	g := tangled(t)
	o := Defaults()
	o.Model, o.Layers, o.Hidden, o.Parallel, o.Threads, o.Epochs, o.Partition = "gcn", 4, 8,
		"graph=2,pipeline=2", 1, 2, partition.Random
	want := mustRun(t, &Job{Graph: g, Options: o})
	parts, err := (&Job{Graph: g, Options: o}).MakeParts(t.Context())
	require.NoError(t, err)
	run := func(open func(p int) (*partition.Share, error)) (losses [4][]float64, errs [4]error) {
		var all sync.WaitGroup
		for rank, end := range comm.InProcess(4) {
			all.Go(func() {
				j := &Job{Options: o, Comm: comm.New(end, 0), Parts: &Parts{Whole: parts.Whole, Open: open}}
				if _, errs[rank] = j.Plan(context.Background()); errs[rank] != nil {
					return
				}
				var r *Result
				if r, errs[rank] = j.Run(context.Background()); errs[rank] == nil {
					losses[rank] = r.Losses
				}
			})
		}
		all.Wait()
		return losses, errs
	}
	losses, errs := run(parts.Open)
	for rank, err := range errs {
		require.NoError(t, err, "rank %d", rank)
		assert.Equal(t, want.Losses, losses[rank], "rank %d", rank)
	}
	fault := errors.New("the disk is gone")
	_, errs = run(func(p int) (*partition.Share, error) {
		if p == 1 {
			return nil, fault
		}
		return parts.Open(p)
	})
	for rank, err := range errs {
		assert.ErrorContains(t, err, fault.Error(), "rank %d", rank)
	}
}

// TestMemoryOfAStage: as docs/architecture.md says, each layer of a stage takes three rows of its width for
// each vertex that another chunk reads, and its part of a chunk's tape. Where other chunks read few vertices,
// a stage takes no more than its share of one worker's memory.
func TestMemoryOfAStage(t *testing.T) {
	const stages, few, many, hidden, heads = 3, 6, 12, 32, 2
	// For each layer: rows of the largest chunk on a tape, and copies of at most two square weights
	const tape, copies = 4, 5
	ring := ringed(t, 3000, 4)
	mixed, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 2000, Degree: 8, Features: 16, Classes: 5, Seed: 3,
	})
	require.NoError(t, err)
	for _, model := range []string{"resgcn", "gcnii", "gat"} {
		for _, g := range []*graph.Graph{ring, mixed} {
			// peak is each worker's planned memory for so many stages.
			peak := func(layers, stages int) ([]int64, *Job) {
				o := Defaults()
				o.Model, o.Layers, o.Hidden, o.Threads = model, layers, hidden, 1
				if model == "gat" {
					o.Heads, o.Residual = heads, true
				}
				j := &Job{Graph: g, Options: o, Mesh: mesh.Mesh{Stages: stages, Partitions: 1, Slices: 1}}
				p, err := j.Plan(context.Background())
				require.NoError(t, err)
				return p.PeakTensorBytes, j
			}
			less, _ := peak(few, stages)
			more, j := peak(many, stages)
			read, largest := readByOthers(g, j.chunks.byVertex)
			layer := (more[1] - less[1]) / ((many - few) / stages) // of a middle stage
			history := int64(4 * 3 * read * (hidden + heads))
			bound := history + int64(4*tape*largest*hidden) + int64(4*copies*(2*hidden*hidden+4*hidden))
			if layer > bound {
				t.Errorf("%s, %d vertices, %d read by others: a layer takes %d bytes, want at most %d", model,
					g.Vertices(), read, layer, bound)
			}
			single, _ := peak(many, 1)
			if g == ring && slices.Max(more) > single[0]/stages {
				t.Errorf("%s: stages take %d bytes, a share of one worker's is %d", model,
					more, single[0]/stages)
			}
		}
	}
}

// readByOthers counts the vertices that another chunk than their own reads, and the vertices of the largest
// chunk.
func readByOthers(g *graph.Graph, chunk []int32) (read, largest int) {
	e, seen, sizes := g.Relations[0].Edges(), make([]bool, g.Vertices()), map[int32]int{}
	for k, u := range e.Source {
		if chunk[u] != chunk[e.Target[k]] && !seen[u] {
			seen[u] = true
			read++
		}
	}
	for _, c := range chunk {
		sizes[c]++
		largest = max(largest, sizes[c])
	}
	return read, largest
}
