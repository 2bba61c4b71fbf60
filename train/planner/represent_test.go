package planner

import (
	"context"
	"testing"

	"weft/comm"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/mesh"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
)

// on are the settings of GraphSAGE on a mesh, with 16 hidden columns.
func on(t *testing.T, grid mesh.Mesh) setting.Options {
	t.Helper()
	o := train.Defaults()
	o.Parallel, o.Model, o.Hidden, o.Threads = setting.Axes(grid), "sage", 16, 1
	if grid.Partitions > 1 {
		o.Partition = "range"
	}
	_, err := o.Resolve()
	require.NoError(t, err)
	return o
}

// sums are what all workers of a plan send, their kernel calls and the work of these, and how many workers
// were planned.
func sums(p *plan.Plan) (sent, calls, work float64, planned int) {
	for i := range p.Workers {
		w := &p.Workers[i]
		sent += float64(w.Sent.Bytes())
		for _, its := range w.Counts.Kernels {
			calls, work = calls+float64(its.Number), work+its.Work
		}
		if w.Like == i {
			planned++
		}
	}
	return sent, calls, work, planned
}

// TestRepresentatives: of many workers some are planned. What all send and compute, and the memory of the
// worker that takes most, are about as if all were.
func TestRepresentatives(t *testing.T) {
	o := generate.Default(generate.RMAT)
	o.Scale, o.EdgeFactor, o.Features, o.Classes = 12, 8, 16, 5
	g, err := generate.Graph(o)
	require.NoError(t, err)
	for grid, most := range map[mesh.Mesh]int{
		{Stages: 1, Partitions: 48, Slices: 1}: 17, // and the first
		{Stages: 1, Partitions: 6, Slices: 8}:  18, // 3 of the partitions, and in each slice 0 like 1, 2 …
		{Stages: 1, Partitions: 1, Slices: 24}: 8,
		{Stages: 2, Partitions: 12, Slices: 1}: 16,
	} {
		planMost := func(most int) plan.Plan {
			job := &train.Job{Graph: g, Options: on(t, grid)}
			(&Machine{}).prepare(job, grid.Workers())
			p, err := job.PlanWith(context.Background(), plan.Asks{Counts: true, Most: most})
			require.NoError(t, err)
			return p
		}
		all, some := planMost(0), planMost(16)
		sent, calls, work, planned := sums(&all)
		assert.Equal(t, grid.Workers(), planned, "%v", grid)
		likeSent, likeCalls, likeWork, planned := sums(&some)
		if planned > most {
			t.Errorf("%v: %d workers are planned", grid, planned)
		}
		name := setting.Axes(grid)
		assert.Near(t, 1, likeSent/sent, .05, name+": sent")
		assert.Near(t, 1, likeCalls/calls, .03, name+": calls")
		assert.Near(t, 1, likeWork/work, .05, name+": work")
		most := func(p *plan.Plan) float64 { return float64((&Mesh{Plan: *p}).PeakTensorBytes()) }
		assert.Near(t, 1, most(&some)/most(&all), .03, name+": memory")
	}
}

// TestPartitionsInTurn: workers that hold several partitions are all planned.
func TestPartitionsInTurn(t *testing.T) {
	o := generate.Default(generate.RMAT)
	o.Scale, o.EdgeFactor, o.Features, o.Classes = 10, 8, 16, 5
	g, err := generate.Graph(o)
	require.NoError(t, err)
	options := on(t, mesh.Mesh{Stages: 1, Partitions: 20, Slices: 1})
	options.Partitions = 40
	job := &train.Job{Graph: g, Options: options}
	(&Machine{}).prepare(job, 20)
	p, err := job.PlanWith(context.Background(), plan.Asks{Counts: true, Most: 16})
	require.NoError(t, err)
	_, _, _, planned := sums(&p)
	assert.Equal(t, 20, planned)
}

// TestUnevenSlices: 5 classes and 16 hidden columns in 12 slices leave some without any. By counts, each
// worker takes what it takes where all are planned, but for a row.
func TestUnevenSlices(t *testing.T) {
	c := random(6000, 6)
	grid := mesh.Mesh{Stages: 1, Partitions: 1, Slices: 12}
	planAlike := func(alike bool) plan.Plan {
		job, err := c.within(1, c.Vertices).Job(on(t, grid))
		require.NoError(t, err)
		(&Machine{}).prepare(job, grid.Workers())
		p, err := job.PlanWith(context.Background(), plan.Asks{Counts: true, Alike: alike})
		require.NoError(t, err)
		return p
	}
	all, alike := planAlike(false), planAlike(true)
	_, _, _, planned := sums(&alike)
	if planned < 2 || planned > 6 {
		t.Errorf("%d workers are planned", planned)
	}
	different := map[int64]bool{}
	for i := range all.Workers {
		exact, like := &all.Workers[i], &alike.Workers[i]
		assert.Equal(t, exact.EdgeColumns.Sum(), like.EdgeColumns.Sum(), "worker %d: work", i)
		assert.Near(t, 1, float64(like.Tensors)/float64(exact.Tensors), .02, "worker %d: memory", i)
		assert.Near(t, 1, float64(like.Sent.Bytes())/float64(exact.Sent.Bytes()), .01, "worker %d: sent", i)
		different[exact.EdgeColumns.Sum()] = true
	}
	if len(different) < 2 {
		t.Errorf("slices take %v", different)
	}
}

// TestManyChunks: plans of fewer chunks stand for one with many. Its messages are as many, its calls about as
// many, and memory, work and bytes are about equal.
func TestManyChunks(t *testing.T) {
	c := random(40_000, 10)
	grid := mesh.Mesh{Stages: 2, Partitions: 1, Slices: 8}
	o := on(t, grid)
	r, err := o.Resolve()
	require.NoError(t, err)
	got, err := c.plan(context.Background(), r, &Machine{})
	require.NoError(t, err)
	want, err := c.ofVertices(t.Context(), c.Vertices, r.Options, plan.Asks{}, r, &Machine{})
	require.NoError(t, err)
	assert.Equal(t, 64, want.Workers[0].Chunks.Each, "chunks")
	for i := range want.Workers {
		a, b := &want.Workers[i], &got.Workers[i]
		for kind := range a.Counts.Traffic {
			assert.Equal(t, a.Counts.Traffic[kind].Messages, b.Counts.Traffic[kind].Messages, "messages")
		}
	}
	sent, calls, work, _ := sums(&want)
	likeSent, likeCalls, likeWork, _ := sums(&got)
	assert.Near(t, 1, likeSent/sent, .02, "sent")
	assert.Near(t, 1, likeCalls/calls, .35, "calls") // fewer, as small blocks of edges are joined
	assert.Near(t, 1, likeWork/work, .25, "work")
	assert.Near(t, 1, float64(got.PeakTensorBytes[0])/float64(want.PeakTensorBytes[0]), .25, "memory")
}

// TestRepresentedLinks: workers that others represent send of embeddings what their own plan says, to the
// byte.
func TestRepresentedLinks(t *testing.T) {
	o := generate.Default(generate.SBM)
	o.Vertices, o.Degree, o.Features, o.Classes = 300, 6, 8, 5
	g, err := generate.Graph(o)
	require.NoError(t, err)
	for grid, most := range map[mesh.Mesh]int{
		{Stages: 1, Partitions: 1, Slices: 6}: 4, {Stages: 1, Partitions: 3, Slices: 2}: 2,
	} {
		settings := on(t, grid)
		settings.Task, settings.OutFeatures, settings.Negatives, settings.Epochs = task.Link, 300, 9, 3
		planMost := func(most int) (p plan.Plan) {
			job := &train.Job{Graph: g, Options: settings}
			(&Machine{}).prepare(job, grid.Workers())
			p, err := job.PlanWith(t.Context(), plan.Asks{Counts: true, Most: most})
			require.NoError(t, err)
			return p
		}
		all, some := planMost(0), planMost(most)
		if _, _, _, planned := sums(&some); planned == grid.Workers() {
			t.Errorf("%v: all workers are planned", grid)
		}
		for number, w := range some.Workers {
			want := all.Workers[number]
			assert.Equal(t, want.Sent.Links, w.Sent.Links, "%v, worker %d", grid, number)
			assert.Equal(t, want.Counts.Traffic[comm.Links], w.Counts.Traffic[comm.Links],
				"%v, worker %d: counted", grid, number)
			if w.Sent.Links.Bytes == 0 {
				t.Errorf("%v: worker %d sends no embeddings", grid, number)
			}
		}
	}
}
