package planner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft/comm"
	"weft/device/devicetest"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel/machine"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// slowCard is one whose times are told by hand.
var slowCard = CardSpec{
	Name: "slow", Memory: 1 << 30, Copy: 100, Flops: 10, BFloat16Flops: 40, ToDevice: 20, ToHost: 10,
	Launch: .5, Efficiency: .5,
}

// TestKernelsOnCard: by hand, the longer one of 1000 bytes at 100 a second and 30 operations at 10, or at 40
// in bfloat16, or by 3×TF32 at a sixth of that, at half of these rates, and .5 s for each of 2 launches. What
// the CPU runs moves at 10 bytes a second.
func TestKernelsOnCard(t *testing.T) {
	calls := func(bytes, operations float64) plan.Calls {
		return plan.Calls{Number: 2, Bytes: bytes, Operations: operations}
	}
	for name, c := range map[string]struct {
		calls    plan.Calls
		settings setting.Resolved
		onCPU    worker.OnCPU
		seconds  float64
		by       string
	}{
		"memory":      {calls(1000, 30), setting.Resolved{}, nil, 20 + 1, "memory"},
		"products":    {calls(10, 30), setting.Resolved{}, nil, 6 + 1, "products"},
		"of bfloat16": {calls(10, 120), setting.Resolved{Storage: tensor.BFloat16}, nil, 6 + 1, "products"},
		"by 3×TF32":   {calls(10, 30), setting.Resolved{TF32: true}, nil, 9 + 1, "products"},
		"launches":    {calls(10, 1), setting.Resolved{}, nil, .2 + 1, "launches"},
		"on the CPU":  {calls(1000, 30), setting.Resolved{}, worker.OnCPU{{Kernel: "spmm"}}, 100, "CPU"},
	} {
		k := plan.Kernel{Name: "spmm", Widths: [2]int{4, 1}}
		m := &Mesh{Settings: &c.settings, Plan: plan.Plan{OnCPU: c.onCPU}}
		m.Plan.Workers = []plan.Worker{{Counts: plan.Counts{Kernels: plan.Kernels{k: c.calls}}}}
		m.Rates, m.Times.Compute = slowCard.ratesOn(m), 1
		assert.Near(t, c.seconds, m.Rates.Seconds(k, c.calls), 1e-9, name)
		assert.Equal(t, c.by, m.LimitedBy(), name)
	}
	assert.Near(t, 4, slowCard.copies(tensor.Moved{Written: 40, Read: 40}), 1e-9, "copies each way")
	assert.Near(t, 5, slowCard.copies(tensor.Moved{Written: 40, Read: 100}), 1e-9, "more copies up")
	by := (&Times{Epoch: 9, Compute: 4, Copies: 3, Link: 2}).LimitedBy()
	assert.Equal(t, "copies", by, "7 s of copies, 4 of which hide kernels")
}

// onCards predicts by counts for a card with changed rates.
func onCards(t *testing.T, workers int, c CardSpec) []Mesh {
	t.Helper()
	p := planner(nil)
	o := &p.Options
	o.Device, o.Model, o.Layers, o.Hidden, o.Chunks = setting.AllCards, "sage", 2, 32, 0
	p.Counts, p.Machine = random(100_000, 20), Machine{Sharers: workers, Card: &c}
	meshes, _, err := p.Meshes(context.Background(), workers)
	require.NoError(t, err)
	return meshes
}

// TestCopyRate: where the card's memory limits an epoch, twice the rate halves it. Better cards take less.
func TestCopyRate(t *testing.T) {
	c := *Published("h100")
	c.Flops, c.Launch = 1e20, 1e-15
	once := onCards(t, 1, c)[0]
	assert.Equal(t, "memory", once.LimitedBy())
	c.Copy *= 2
	assert.Near(t, .5, onCards(t, 1, c)[0].Times.Epoch/once.Times.Epoch, 1e-3, "of twice the rate")
	var epochs []float64
	for _, name := range []string{"h200", "h100", "a100-80", "a100-40", "a10", "l4"} {
		epochs = append(epochs, onCards(t, 1, *Published(name))[0].Times.Epoch)
	}
	if !slices.IsSorted(epochs) {
		t.Errorf("epochs of worse and worse cards: %v", epochs)
	}
}

// TestMessagesOfCards: without links of its own a message is copied to the host and back, and one that has a
// slow link takes that too. Nobody shares cores.
func TestMessagesOfCards(t *testing.T) {
	c := *Published("h100")
	for _, m := range onCards(t, 2, c) {
		sent := m.Plan.Sent[0].Bytes()
		least := float64(sent) * (1/c.ToHost + 1/c.ToDevice)
		if alone := m.Times.Link; m.Settings.Mesh.Stages == 1 && alone < .4*least || m.Times.Epoch < least {
			t.Errorf("%s: %v, where messages alone take %v", m.Parallel, m.Times, least)
		}
	}
	p := &Planner{Machine: Machine{Cores: 2, Threads: 2, Sharers: 4, Card: &c, Cards: 2}}
	f := formula{Machine: p.Machine}
	assert.Near(t, 2, f.crowd(4), 0, "four workers on two cards")
	assert.Near(t, 2, f.crowd(3), 0, "three workers on two cards")
	f.Cards = 0
	assert.Near(t, 1, f.crowd(4), 0, "four workers on four cards")

	f.Links, f.Card = Links{Sends: 10, Receives: 10}, &slowCard
	var l load
	l.sent[comm.Stage] = comm.Traffic{Bytes: 20}
	for direct, want := range map[bool]float64{false: 2 + 2 + 1, true: 2} {
		f.Resolved = &setting.Resolved{Options: setting.Options{DeviceMessages: direct}}
		links := []Links{{Sends: 10, Receives: 10}, {Sends: 10, Receives: 40}, {Sends: 40, Receives: 10}}
		for _, f.Links = range links {
			assert.Near(t, want, f.moves(&l, comm.Stage), 1e-9, "%v, %+v", direct, f.Links)
		}
		f.Links = Links{} // within the host's memory, which the cards' copies pass in any case
		assert.Near(t, 2+1, f.moves(&l, comm.Stage), 1e-9, "%v, no link", direct)
	}
	// Each of three messages waits for the link, and for the launches of two copies unless the link is the
	// cards'.
	l.sent[comm.Stage] = comm.Traffic{Messages: 3}
	for direct, want := range map[bool]float64{false: 3 * (.25 + 2*.5), true: 3 * .25} {
		f.Resolved = &setting.Resolved{Options: setting.Options{DeviceMessages: direct}}
		f.Links = Links{Sends: 10, Receives: 10, Latency: .25}
		assert.Near(t, want, f.moves(&l, comm.Stage), 1e-9, "%v, latency", direct)
	}
}

// TestMemoryOfCards: what a mesh takes of a card is what its run takes there.
func TestMemoryOfCards(t *testing.T) {
	devicetest.Library(t)
	p := planner(small(t))
	p.Options.Device, p.Options.Epochs = setting.AllCards, 3
	card, err := MeasureCard(0, machine.Cache{Folder: t.TempDir()})
	require.NoError(t, err)
	p.Machine.Card, p.Machine.Cards, p.Machine.Sharers = card, 1, 2
	meshes, _, err := p.Meshes(context.Background(), 2)
	require.NoError(t, err)
	assert.Len(t, meshes, 3)
	for _, m := range meshes {
		r, err := (&train.Job{
			Graph: p.Graph, Options: p.options(m.Settings.Mesh), Checkpoints: &train.Checkpoints{},
		}).Run(context.Background())
		require.NoError(t, err, m.Parallel)
		assert.Equal(t, r.Device.PeakBytes, m.CardBytes(), m.Parallel)
		assert.Equal(t, r.Communication.Bytes(), m.SentBytes(), m.Parallel)
	}
	p.Options.MemoryLimit = setting.Bytes(meshes[0].CardBytes())
	_, refused, err := p.Meshes(context.Background(), 2)
	require.NoError(t, err)
	assert.Len(t, refused, 3) // two workers share it

	p.Options.Model, p.Options.Partitions, p.Options.Offload = "sage", 4, setting.RAM
	p.Options.MemoryLimit, p.Options.Chunks = 1, 0
	_, refused, err = p.Meshes(context.Background(), 1)
	require.NoError(t, err)
	var exceeds plan.Exceeds
	if !errors.As(refused[0].Reason, &exceeds) {
		t.Fatal(refused)
	}
	p.Options.MemoryLimit = setting.Bytes(exceeds.Need)
	meshes, _, err = p.Meshes(context.Background(), 1)
	require.NoError(t, err)
	o := p.options(mesh.One)
	r, err := (&train.Job{Graph: p.Graph, Options: o, Checkpoints: &train.Checkpoints{}}).
		Run(context.Background())
	require.NoError(t, err)
	assert.Equal(t, r.Device.RAM, meshes[0].Plan.Disk(), "copied")
	assert.Equal(t, r.Device.RAMBytes, meshes[0].Plan.DiskBytes(), "rests")
	copies := max(float64(r.Device.RAM.Read)/card.ToDevice, float64(r.Device.RAM.Written)/card.ToHost)
	busy := max(copies, meshes[0].Times.Compute)
	assert.Near(t, 1, (meshes[0].Times.Compute+meshes[0].Times.Copies)/busy, 1e-9, "kernels beside copies")
}

// TestLaunchesByCounts: of ten times the vertices an epoch on cards has the same launches and messages, as
// messages grow instead. Plans of smaller graphs have the host's memory of the graph's own, too.
func TestLaunchesByCounts(t *testing.T) {
	const few = 200_000
	for _, mesh := range []string{"tensor=8", "graph=2,tensor=4"} {
		o := train.Defaults()
		o.Model, o.Hidden, o.Layers = "sage", 256, 3
		o.Parallel, o.Threads, o.Device = mesh, 1, setting.AllCards
		r, err := o.Resolve()
		require.NoError(t, err)
		var all []plan.Plan
		on := &Machine{Card: Published("h200")}
		wide := func(vertices int) *Counts {
			c := random(vertices, 2)
			c.Classes, c.Types[0].FeatureColumns = 172, 128
			return c
		}
		for _, vertices := range []int{few, 10 * few} {
			p, err := wide(vertices).plan(t.Context(), r, on)
			require.NoError(t, err, mesh)
			all = append(all, p)
		}
		smaller, larger := all[0].Workers[0].Counts, all[1].Workers[0].Counts
		assert.Equal(t, smaller.Steps(), larger.Steps(), mesh)
		real, err := wide(few).ofVertices(t.Context(), few, o, plan.Asks{}, r, on)
		require.NoError(t, err, mesh)
		assert.Equal(t, smaller.Steps(), real.Workers[0].Counts.Steps(), "%s: the graph's own plan", mesh)
		for name, pair := range map[string][2]int64{
			"pinned": {all[0].MessageBytes(), real.MessageBytes()},
			"memory": {all[0].PeakTensorBytes[0], real.PeakTensorBytes[0]},
		} {
			assert.Near(t, 1, float64(pair[0])/float64(pair[1]), .01, "%s: %s", mesh, name)
		}
	}
}

// TestPipelinesByCounts: a pipeline on cards has the same launches of ten times the vertices, also of a
// degree at which some chunks read a block more than others. Of a graph for which smaller ones stand the
// counts' plan is about its own.
func TestPipelinesByCounts(t *testing.T) {
	for mesh, s := range map[string]struct {
		degree    float64
		few, many int // vertices
	}{
		"pipeline=2":          {11.4, 100_000, 1_000_000},
		"pipeline=2,graph=2":  {3.6, 100_000, 1_000_000},
		"pipeline=2,tensor=2": {5, 200_000, 10_000_000}, // so many that messages have their full number
	} {
		o := train.Defaults()
		o.Parallel, o.Threads, o.Device = mesh, 1, setting.AllCards
		r, err := o.Resolve()
		require.NoError(t, err)
		p := &Planner{Options: o, Machine: Machine{Card: Published("h100"), Sharers: r.Workers}}
		predict := func(vertices int) *Mesh {
			counted, err := random(vertices, s.degree).plan(t.Context(), r, &p.Machine)
			require.NoError(t, err)
			return p.Predict(r, counted)
		}
		assert.Equal(t, predict(s.many).steps, predict(10*s.many).steps, mesh)
		its, err := random(s.few, s.degree).ofVertices(t.Context(), s.few, o, plan.Asks{}, r, &p.Machine)
		require.NoError(t, err)
		by, own := predict(s.few), p.Predict(r, its)
		assert.Equal(t, own.Plan.Workers[0].Chunks.Each, by.Plan.Workers[0].Chunks.Each, mesh)
		assert.Near(t, 1, float64(by.steps)/float64(own.steps), .06, "%s: launches and messages", mesh)
		assert.Near(t, 1, by.Times.Epoch/own.Times.Epoch, .03, "%s: seconds", mesh)
		assert.Near(t, 1, float64(by.CardBytes())/float64(own.CardBytes()), .02, "%s: bytes", mesh)
	}
}

// TestPipelinesOfStores: of a graph of many edges in random partitions, whose chunks METIS divides hardly
// better than by chance, the plan by counts is about that of its store.
func TestPipelinesOfStores(t *testing.T) {
	from := generate.Default(generate.Uniform)
	from.Vertices, from.Degree, from.Features, from.Classes = 41_000, 16, 16, 5
	g, err := generate.Graph(from)
	require.NoError(t, err)
	g.Relations[0].Symmetric = true // as its store has it
	for _, mesh := range []string{"pipeline=2", "pipeline=2,tensor=2"} {
		o := train.Defaults()
		o.Parallel, o.Threads, o.Device = mesh, 1, setting.AllCards
		r, err := o.Resolve()
		require.NoError(t, err)
		p := &Planner{Options: o, Machine: Machine{Card: Published("h100"), Sharers: r.Workers}}
		counted, err := CountsOf(g).plan(t.Context(), r, &p.Machine)
		require.NoError(t, err)
		job := &train.Job{Graph: g, Options: o}
		p.Machine.prepare(job, r.Workers)
		real, err := job.PlanWith(t.Context(), plan.Asks{Counts: true})
		require.NoError(t, err)
		by, exact := p.Predict(r, counted), p.Predict(r, real)
		assert.Equal(t, exact.SentBytes(), by.SentBytes(), mesh)
		assert.Near(t, 1, float64(by.steps)/float64(exact.steps), .06, "%s: launches and messages", mesh)
		assert.Near(t, 1, by.Times.Epoch/exact.Times.Epoch, .06, "%s: seconds", mesh)
		assert.Near(t, 1, float64(by.CardBytes())/float64(exact.CardBytes()), .04, "%s: bytes", mesh)
	}
}

// TestTensorByCounts: on cards in slices a plan by counts is that of the store in memory, at several sizes:
// launches and messages, and bytes sent, are equal, memory within .2 %, and the time of an epoch within 2 %.
func TestTensorByCounts(t *testing.T) {
	for _, vertices := range []int{40_000, 80_000, 160_000} {
		from := generate.Default(generate.Uniform)
		from.Vertices, from.Degree, from.Features, from.Classes = vertices, 4, 64, 40
		g, err := generate.Graph(from)
		require.NoError(t, err)
		g.Relations[0].Symmetric = true // as its store has it
		for _, workers := range []int{2, 4} {
			o := train.Defaults()
			o.Model, o.Hidden, o.Layers, o.Threads, o.Device = "sage", 128, 3, 1, setting.AllCards
			o.Parallel = fmt.Sprintf("tensor=%d", workers)
			r, err := o.Resolve()
			require.NoError(t, err)
			p := &Planner{Options: o, Machine: Machine{Card: Published("h200"), Sharers: workers}}
			counted, err := CountsOf(g).plan(t.Context(), r, &p.Machine)
			require.NoError(t, err)
			job := &train.Job{Graph: g, Options: o}
			p.Machine.prepare(job, workers)
			real, err := job.PlanWith(t.Context(), plan.Asks{Counts: true})
			require.NoError(t, err)
			name := fmt.Sprintf("%d vertices, %s", vertices, o.Parallel)
			by, exact := p.Predict(r, counted), p.Predict(r, real)
			for k := range workers {
				its, wants := &counted.Workers[k].Counts, &real.Workers[k].Counts
				assert.Equal(t, wants.Steps(), its.Steps(), name)
				assert.Equal(t, wants.Traffic, its.Traffic, name)
			}
			assert.Equal(t, exact.SentBytes(), by.SentBytes(), name)
			assert.Near(t, 1, float64(by.CardBytes())/float64(exact.CardBytes()), .002, name)
			assert.Near(t, 1, by.Times.Epoch/exact.Times.Epoch, .02, name)
			assert.Near(t, 1, by.Times.Compute/exact.Times.Compute, .02, name)
		}
	}
}

// TestRestingByCounts: where a smaller graph stands for one of which a part rests, memory, copies and what
// rests are about those of its own plan.
func TestRestingByCounts(t *testing.T) {
	restsByCounts(t, &Machine{Card: Published("h100")}, "", 2, .7)
	restsByCounts(t, &Machine{Card: Published("h100"), Cards: 1, Sharers: 2}, "graph=2", 4, .5) // on one card
}

// restsByCounts compares the plan by counts of a run on cards, which has that part of the memory that it
// needs, with the plan of its own graph.
func restsByCounts(t *testing.T, on *Machine, parallel string, partitions int, has float64) {
	t.Helper()
	c, o := random(2*3*leastRows, 5), train.Defaults()
	o.Model, o.Hidden, o.Layers, o.Device = "sage", 32, 3, setting.AllCards
	o.Parallel, o.Partitions = parallel, setting.Partitions(partitions)
	r, err := o.Resolve()
	require.NoError(t, err)
	whole, err := c.ofVertices(context.Background(), c.Vertices, o, plan.Asks{}, r, on)
	require.NoError(t, err)
	_, needs := whole.Most()
	o.Offload, o.MemoryLimit = setting.RAM, setting.Bytes(has*float64(needs))*setting.Bytes(r.Workers)
	r, err = o.Resolve()
	require.NoError(t, err)
	want, err := c.ofVertices(context.Background(), c.Vertices, o, plan.Asks{}, r, on)
	require.NoError(t, err)
	got, err := c.plan(context.Background(), r, on)
	require.NoError(t, err)
	_, most := got.Most()
	_, wants := want.Most()
	for name, pair := range map[string][2]int64{
		"memory": {most, wants}, "rests": {got.DiskBytes(), want.DiskBytes()},
		"read": {got.Disk().Read, want.Disk().Read}, "written": {got.Disk().Written, want.Disk().Written},
		"calls": {int64(got.Workers[0].Counts.Steps()), int64(want.Workers[0].Counts.Steps())},
	} {
		assert.Near(t, 1, float64(pair[0])/float64(pair[1]), .1, "%s: %d of %d", name, pair[0], pair[1])
	}
}

// TestFewestPartitions: a graph that a card has no room for fits in partitions that take turns. Where it has
// room, or the caller says how many, none are proposed.
func TestFewestPartitions(t *testing.T) {
	c := *Published("h100")
	c.Memory = 250e6
	p := planner(nil)
	o := &p.Options
	o.Device, o.Model, o.Layers, o.Hidden, o.Chunks = setting.AllCards, "sage", 2, 64, 0
	p.Counts, p.Machine = random(200_000, 5), Machine{Sharers: 1, Card: &c}
	meshes, _, err := p.Meshes(context.Background(), 1)
	require.NoError(t, err)
	assert.Len(t, meshes, 0)
	m, err := p.Fewest(context.Background(), mesh.One, 8)
	require.NoError(t, err)
	if m == nil || m.CardBytes() > 250e6 || m.Plan.HostBytes(0) == 0 {
		t.Fatalf("%+v", m)
	}
	p.Options.Partitions = 4
	m, err = p.Fewest(context.Background(), mesh.One, 8)
	if m != nil || err != nil || p.ChoosesPartitions(mesh.One) {
		t.Errorf("%v, %v", m, err)
	}
}

// TestFewestBeginWhereFeaturesFit: by hand, of 800 MB of features a card of 300 MB, of which half is taken,
// holds an eighth, and so fewer partitions are not planned; nor are any where the host has no room for what
// no
// card holds.
func TestFewestBeginWhereFeaturesFit(t *testing.T) {
	c := *Published("h100")
	c.Memory = 300e6
	p := planner(nil)
	o := &p.Options
	o.Device, o.Model, o.Layers, o.Hidden, o.Chunks = setting.AllCards, "sage", 2, 8, 0
	p.Counts, p.Machine = random(200_000, 5), Machine{Sharers: 1, Card: &c}
	p.Counts.Types[0].FeatureColumns = 1000
	var reported []string
	p.Progress = func(stage string, _, _ int64) { reported = append(reported, stage) }
	for _, host := range []struct {
		machine float64
		limit   setting.Bytes
		fits    bool
	}{{0, 0, true}, {1e9, 1e9, true}, {640e6, 0, false}, {0, 640e6, false}} {
		reported = nil
		p.Machine.HostMemory, o.HostMemoryLimit = host.machine, host.limit
		m, err := p.Fewest(t.Context(), mesh.One, 8)
		require.NoError(t, err)
		var want []string
		if host.fits {
			want = []string{"graph=1 in 8 partitions that take turns: planning it by counts"}
		}
		assert.Equal(t, want, reported)
		assert.Equal(t, host.fits, m != nil, "%+v", host)
		m, err = p.Fewest(t.Context(), mesh.One, 4)
		if m != nil || err != nil {
			t.Errorf("%v, %v", m, err)
		}
	}
	assert.Equal(t, true, p.ChoosesPartitions(mesh.One), "also if none fits")
}

// TestFewestWhereNothingRests: where the host has no room for what rests in two partitions, four are taken in
// which nothing does, as each needs less beside what all keep.
func TestFewestWhereNothingRests(t *testing.T) {
	c := *Published("h100")
	p := planner(nil)
	o := &p.Options
	o.Device, o.Model, o.Layers, o.Hidden, o.Chunks = setting.AllCards, "sage", 2, 256, 0
	p.Counts, p.Machine = random(200_000, 20), Machine{Sharers: 1, Card: &c}
	p.Counts.Types[0].FeatureColumns = 256
	var needs []int64 // for nothing to rest, in 2 and in 4
	for _, o.Partitions = range []setting.Partitions{2, 4} {
		meshes, refused, err := p.Meshes(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, meshes, 1, "%v", refused)
		needs = append(needs, meshes[0].CardBytes())
	}
	o.MemoryLimit, o.Partitions = setting.Bytes(needs[0]+needs[1])/2, 0
	for name, host := range map[string]struct {
		machine float64
		limit   setting.Bytes
	}{"limit": {0, 20e6}, "machine": {20e6, 0}} {
		p.Machine.HostMemory, o.HostMemoryLimit = host.machine, host.limit
		m, err := p.Fewest(t.Context(), mesh.One, 8)
		require.NoError(t, err)
		if m == nil {
			t.Fatalf("%s: none, where 2 and 4 need %d", name, needs)
		}
		assert.Equal(t, 4, m.Settings.Mesh.Partitions, name)
	}
}

// TestFeaturesAreOneMatrix: whatever the model, a worker needs room for the features of a partition.
func TestFeaturesAreOneMatrix(t *testing.T) {
	c := *Published("h100")
	c.Memory = 1e6
	for _, model := range []string{"mlp", "sage", "gat"} {
		for _, precision := range []string{"f32", "bf16"} {
			p := planner(nil)
			o := &p.Options
			o.Device, o.Offload, o.Partitions, o.Chunks = setting.AllCards, setting.RAM, 4, 0
			o.Model, o.Layers, o.Hidden, o.Precision = model, 2, 8, precision
			p.Counts, p.Machine = random(8_000, 3), Machine{Sharers: 1, Card: &c}
			p.Counts.Types[0].FeatureColumns = 500
			_, refused, err := p.Meshes(t.Context(), 1)
			require.NoError(t, err)
			var exceeds plan.Exceeds
			if len(refused) != 1 || !errors.As(refused[0].Reason, &exceeds) {
				t.Fatalf("%s, %s: %v, want too much memory", model, precision, refused)
			}
			r, err := p.resolve(mesh.One)
			require.NoError(t, err)
			features := map[string]int64{"f32": 16e6, "bf16": 8e6}[precision]
			assert.Equal(t, features, p.Counts.features(r))
			if exceeds.Need < features/4 {
				t.Errorf("%s, %s: a worker needs %d", model, precision, exceeds.Need)
			}
		}
	}
}

// TestBeyondFewestPartitions: what a worker needs is never below the bound from fewer partitions, so none
// that suffice are given up.
func TestBeyondFewestPartitions(t *testing.T) {
	c := *Published("h100")
	c.Memory = 1e6
	p := planner(nil)
	o := &p.Options
	o.Device, o.Model, o.Layers, o.Hidden, o.Chunks = setting.AllCards, "sage", 2, 64, 0
	o.Offload = setting.RAM
	p.Counts, p.Machine = random(200_000, 5), Machine{Sharers: 1, Card: &c}
	var needs []plan.Exceeds
	for each := 2; each <= 16; each *= 2 {
		o.Partitions = setting.Partitions(each)
		_, refused, err := p.Meshes(t.Context(), 1)
		require.NoError(t, err)
		var exceeds plan.Exceeds
		if len(refused) != 1 || !errors.As(refused[0].Reason, &exceeds) {
			t.Fatalf("%d partitions: %v, want too much memory", each, refused)
		}
		for k, fewer := range needs {
			fewer.Room = exceeds.Need
			if times := 1 << (len(needs) - k); fewer.Beyond(times) {
				t.Errorf("%d partitions need %d bytes, beyond %d in %d times fewer", each, exceeds.Need,
					fewer.Need, times)
			}
		}
		needs = append(needs, exceeds)
	}
}

// TestReadCard: what a file lacks, or has beside a card's rates, is refused by its key.
func TestReadCard(t *testing.T) {
	rates := `"name": "mine", "memory_bytes": 8e9, "copy_bytes_per_second": 4e11, "flops_per_second": 2e13,
		"bfloat16_flops_per_second": 8e13, "to_device_bytes_per_second": 1.2e10,
		"to_host_bytes_per_second": 1.1e10`
	for text, want := range map[string]string{
		`{` + rates + `, "launch_seconds": 5e-6, "efficiency": 0.5}`: "",
		`{` + rates + `, "launch_seconds": 5e-6}`:                    "",
		`{` + rates + `}`: `launch_seconds: 0; give 1e-09 to 1`,
		`{` + rates + `, "launch_seconds": 1, "efficiency": 2}`: `efficiency: 2; give 0.001 to 1`,
		`{` + rates + `, "copy_bytes_per_second": 1e-300}`:      `copy_bytes_per_second: 1e-300; give 1e+06 to 1e+18`,
		`{` + rates + `, "latency": 1}`:                         `unknown field "latency"; it has the keys of card in weft plan --json`,
		`{` + rates + `, "launch_seconds": 5e-6} {}`:            `it has more than one JSON object`,
		`{"memory_bytes": "8 GB"}`:                              `cannot unmarshal string`,
		`[]`:                                                    `cannot unmarshal array`,
	} {
		path := filepath.Join(t.TempDir(), "card.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		c, err := ReadCard(path)
		if want != "" {
			assert.Refused(t, err, want, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, CardSpec{"mine", 8e9, 4e11, 2e13, 8e13, 1.2e10, 1.1e10, 5e-6, c.Efficiency}, *c)
	}
	for _, name := range PublishedNames() {
		require.NoError(t, Published(name).check(), name)
	}
}
