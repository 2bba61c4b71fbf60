package train

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/edges"
	"weft/partition"
	"weft/tensor"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
)

// inTurns is a job on four random partitions that the workers of a mesh hold.
func inTurns(j Job, mesh string) *Job {
	o := &j.Options
	o.Parallel, o.Partitions, o.Partition, o.Threads = mesh, 4, partition.Random, 1
	return &j
}

// sameResults compares what two runs learned, to the bit.
func sameResults(t *testing.T, got, want *Result) {
	t.Helper()
	assert.Equal(t, want.Losses, got.Losses, "%d workers", got.Workers)
	assert.Equal(t, want.Logits, got.Logits, "%d workers", got.Workers)
	assert.Equal(t, want.Test, got.Test, "%d workers", got.Workers)
	assert.Equal(t, want.Links, got.Links, "%d workers", got.Workers)
}

// turned is a graph and options on four partitions that workers hold in turns.
type turned struct {
	g *graph.Graph
	Options
	slices int    // of each partition; 0: no slices
	two    string // the mesh of two or three workers; "": there is none
}

// TestTurns: partitions that take turns give the bits of as many workers. What one worker's partitions tell
// each other is not sent, and all-to-alls are. The plan is what the run takes, but for links on several
// workers.
func TestTurns(t *testing.T) {
	for name, c := range allTurned(t) {
		t.Run(name, func(t *testing.T) {
			onWorkers := func(workers int) *Job {
				mesh := fmt.Sprintf("graph=%d", workers)
				if c.slices > 0 {
					mesh = strings.TrimPrefix(fmt.Sprintf("%s,tensor=%d", mesh, c.slices), "graph=1,")
				}
				return onMesh(c.g, c.Options, mesh+"/4")
			}
			apart := mustRun(t, onWorkers(4))
			single, _ := planAndRun(t, onWorkers(1))
			all := []*Result{single}
			if c.two != "" {
				two, _ := planAndRun(t, onMesh(c.g, c.Options, c.two+"/4"))
				all = append(all, two)
				most, some := apart.Communication.Halo.Bytes, two.Communication.Halo.Bytes
				if most > 0 && (some == 0 || some >= most) {
					t.Errorf("halo bytes: %d of %d workers, %d of %d", most, apart.Workers, some, two.Workers)
				}
			}
			for _, r := range all {
				sameResults(t, r, apart)
				got, want := r.Communication.Layout, apart.Communication.Layout
				if len(r.SentBytes) != r.Workers || len(r.PeakTensorBytes) != r.Workers || got != want {
					t.Errorf("%d workers: peaks %v, sent bytes %v; all-to-alls %+v, of %d workers %+v",
						r.Workers, r.PeakTensorBytes, r.SentBytes, got, apart.Workers, want)
				}
			}
			if sent := single.Communication; sent.Halo.Bytes != 0 || c.slices == 0 && sent.Links.Bytes != 0 {
				t.Errorf("partitions of one worker sent %+v", sent)
			}
		})
	}
}

// allTurned are all networks, on partitions or on slices of these, several types and links.
func allTurned(t *testing.T) map[string]turned {
	g, many, types := tangle(t, 700, 1000), tangle(t, 2200, 0), severalTypes(t)
	all, turns := networks(), map[string]turned{}
	const wide = "gcnii, wide" // several messages to each of two workers
	for name, words := range map[string]string{
		"gcn, decoupled": "decoupled, norm none, residual false, teleport .1",
		"gat, one head":  "heads 1, output-heads 1", "gatv2, one head": "heads 1, output-heads 1",
		wide: "hidden 256, layers 2",
	} { // slices have parts of a head, or no columns
		model, _, _ := strings.Cut(name, ", ")
		all[name] = apply(all[model], words)
	}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		c := turned{g: g, Options: all[name]}
		c.Epochs, c.KeepHalo = 2, i%3 == 1
		if i%3 == 2 {
			c.Precision = "bf16"
		}
		if i%2 == 0 && !strings.Contains(name, ", ") {
			c.Halo = haloOf(&c.Options, i/2%3)
			if i%4 == 0 {
				c.two = fmt.Sprintf("graph=%d", 2+i%8/4)
			}
			turns[name] = c
			continue
		}
		if c.slices = 2 + i/2%2; name == wide {
			c.g, c.slices = many, 2
		}
		if i%4 < 2 || name == wide {
			c.two = "graph=2,tensor=2"
		}
		turns[name+" in slices"] = c
	}
	for name, o := range typesInTurns(types) {
		turns["types, "+name] = turned{g: types, Options: o, slices: 2}
	}
	for name, c := range linksInTurns(t, g, types) {
		turns["links, "+name] = turned{g: c.g, Options: c.Options, two: "graph=2"}
	}
	return turns
}

// typesInTurns are models of several vertex types, one of which has a learned embedding.
func typesInTurns(types *graph.Graph) map[string]Options {
	types.Types[1].Features = graph.Features{}
	all := map[string]Options{}
	for name, change := range map[string]string{
		"rgcn":  "bases 2",
		"gatv2": "node-embedding 6, heads 1, output-heads 1", // slices without columns
	} {
		o := Defaults()
		o.Model, o.Hidden, o.Epochs, o.LR, o.Threads = name, 10, 3, 1e-4, 1
		all[name] = apply(o, change)
	}
	return all
}

// linksInTurns are kinds of link prediction with several windows of edges.
func linksInTurns(t *testing.T, g, types *graph.Graph) map[string]resting {
	bought, _, _, _ := shop(t, 12)
	all := map[string]resting{}
	for name, c := range map[string]struct {
		g *graph.Graph
		Options
	}{
		"dot":      {g, linked("out-features 0")},
		"distmult": {types, linked("model rgcn, decoder distmult, node-embedding 2")},
		"between": {
			bought,
			linked("model sage, link-relation user,buys,item;item,has,tag, eval-negatives 20"),
		},
		"among": {g, linked("eval-negatives 50, metric hits@10, model sage")},
		"area":  {g, linked("metric roc-auc, model gat, precision bf16")},
	} {
		c.Epochs, c.Negatives = 3, 9
		all[name] = resting{g: c.g, Options: c.Options}
	}
	return all
}

// resting is a graph and options of which matrices rest on disk.
type resting struct {
	g *graph.Graph
	Options
	mesh string // with partitions in turns
	// limits are shares of what lies between the least memory and that in which nothing rests. Below 0 there
	// is no limit: the run takes the least of the fastest settings.
	limits []float64
	near   bool   // limits beside the least are kept
	any    bool   // messages of several workers come at any time: the plan is a bound
	fits   bool   // nothing rests, even with the least memory: it has room for all
	again  string // the mesh on which a run that continues has the bits of one that does not; "": not tried
	// messages of several workers rest with the least memory alone.
	messages bool
	tables   int64 // what lies between both bounds, at least: what tables of all vertices take
}

// Shares that are no limit, and the memory in which nothing rests.
const fastest, inMemory = -1., 1.

type planned = plan.Worker

// TestRests: a run whose matrices rest on disk has the bits of one in memory, weights too. It keeps its
// limit. What it takes, and what it reads and writes, is what the plan says. It never needs more memory than
// one without a disk, and with as much as that nothing rests.
func TestRests(t *testing.T) {
	for name, c := range allResting(t) {
		t.Run(name+" on "+c.mesh, func(t *testing.T) { c.run(t, t.TempDir()) })
	}
}

// run is TestRests of one of them, where matrices rest in a folder, or below a card.
func (c *resting) run(t *testing.T, offload string) {
	t.Helper()
	o := c.Options
	card := offload == setting.RAM
	if card {
		o.Device = setting.AllCards
	}
	want := mustRun(t, onMesh(c.g, o, c.mesh))
	o.Offload = offload
	var bounds plan.Plan
	if c.near || slices.Max(c.limits) != fastest || card {
		asks := onMesh(c.g, o, c.mesh)
		var err error
		bounds, err = asks.PlanWith(t.Context(), plan.Asks{Range: true})
		require.NoError(t, err)
		if took := want.PeakTensorBytes[0] + want.GraphBytes[0]; want.Workers == 1 &&
			took != bounds.All {
			t.Errorf("nothing rests with %d bytes, and without offload it took %d", bounds.All, took)
		}
		if bounds.All-bounds.Least < c.tables && !card {
			t.Errorf("%d bytes at least, %d without a disk, and tables take %d", bounds.Least,
				bounds.All, c.tables)
		}
	}
	for _, share := range c.limits {
		if card { // which has a limit
			share = max(share, 0)
		}
		limit := int64(0) // of a worker
		if share != fastest {
			limit = bounds.Least + int64(share*float64(bounds.All-bounds.Least))
		}
		o.MemoryLimit = setting.Bytes(limit)
		if card { // of all
			o.MemoryLimit *= setting.Bytes(want.Workers)
		}
		j := onMesh(c.g, o, c.mesh)
		plan, err := j.Plan(t.Context())
		require.NoError(t, err)
		got, err := j.RunPlanned(t.Context(), &plan)
		require.NoError(t, err)
		sameResults(t, got, want)
		assert.Equal(t, want.Weights, got.Weights, "with a limit of %d bytes: other weights",
			o.MemoryLimit)
		for k, tensors := range got.PeakTensorBytes {
			took, planned := tensors+got.GraphBytes[k], plan.PeakTensorBytes[k]+plan.GraphBytes[k]
			if took > planned || took < planned && !c.any && share < inMemory ||
				limit > 0 && took > limit {
				t.Errorf("worker %d took %d bytes of %d, planned %d", k, took, limit, planned)
			}
		}
		moved, most := got.Disk, plan.Disk()
		if got.Device != nil {
			moved = got.Device.RAM
			if kept := got.Device.RAMBytes; kept > plan.DiskBytes() || kept < plan.DiskBytes() && !c.any {
				t.Errorf("%d bytes rest, planned %d", kept, plan.DiskBytes())
			}
		}
		if rests := moved != (tensor.Moved{}); rests != (share < inMemory && !c.fits) && !c.any {
			t.Errorf("with a limit of %d bytes something rests: %v", limit, rests)
		}
		rests := slices.ContainsFunc(plan.Workers, func(w planned) bool { return w.Reserve.Rests })
		if c.messages && rests != (share == 0 && !card) {
			t.Errorf("with a limit of %d bytes messages rest: %v", limit, rests)
		}
		more := moved.Read > most.Read || moved.Written > most.Written
		if more || moved != most && !c.any || moved == (tensor.Moved{}) != plan.InMemory {
			t.Errorf("with a limit of %d bytes moved %+v, planned %+v", limit, moved, most)
		}
	}
	o.MemoryLimit = 0
	for _, percent := range []int64{99, 101} {
		if tight := o; c.near {
			tight.MemoryLimit = setting.Bytes(bounds.Least * percent / 100)
			plan, err := onMesh(c.g, tight, c.mesh).Plan(t.Context())
			require.NoError(t, err)
			for k, tensors := range plan.PeakTensorBytes {
				if needs := tensors + plan.GraphBytes[k]; needs > max(
					int64(tight.MemoryLimit), bounds.Least,
				) {
					t.Errorf(
						"a limit of %d bytes needs %d, and the least is %d", tight.MemoryLimit, needs,
						bounds.Least,
					)
				}
			}
		}
	}
	if c.again == c.mesh {
		o.MemoryLimit = setting.Bytes(bounds.Least * int64(want.Workers))
	}
	if c.again != "" {
		c.resume(t, o, want)
	}
}

// resume continues after two epochs.
func (c *resting) resume(t *testing.T, o Options, want *Result) {
	t.Helper()
	folder := t.TempDir()
	first := onMesh(c.g, o, c.mesh)
	follow(first, folder, nil)
	if r, err := first.Run(stopAfter(first, 2)); err != nil || r.Epochs != 2 {
		t.Fatalf("%v after %d epochs", err, r.Epochs)
	}
	second := onMesh(c.g, o, c.again)
	follow(second, folder, openLast(t, folder))
	got := mustRun(t, second)
	sameResults(t, got, want)
	assert.Equal(t, want.Weights, got.Weights, "other weights of a run that continued")
}

// allResting are models, axes and tasks of which something else rests each.
func allResting(t *testing.T) map[string]*resting {
	all := map[string]*resting{}
	add := func(name string, g *graph.Graph, o Options, mesh string, limits ...float64) *resting {
		all[name] = &resting{g: g, Options: o, mesh: mesh, limits: limits}
		return all[name]
	}
	large, models := tangle(t, 1100, 1000), networks()
	for i, name := range []string{
		"sage", "gat", "resgcn", "gcn", "gatv2", "blocks", "both", "gin", "sage cover",
	} {
		model, halo, _ := strings.Cut(name, " ")
		o, mesh, share := models[model], "graph=1/4", fastest
		o.Epochs, o.Hidden, o.KeepHalo, o.Halo = 2, 2*o.Hidden, i%3 == 1, haloOf(&o, (i+1)/2%2)
		if halo == "cover" {
			o.Halo = edges.HaloCover
		}
		if i == 6 || i == 7 {
			mesh = "tensor=2/4"
		}
		if i%3 == 2 {
			o.Precision, o.Recompute = "bf16", "blocks"
		}
		if i%2 == 0 {
			share = .25
		}
		// How the limit is met is no matter of the model: once on each mesh
		add(name, large, o, mesh, share).near = i%6 == 0
	}

	// An epoch computes in Go (GELU), or a matrix is still being written while others take its room (PNA,
	// which has many). With the least memory, which is full at many times, graph and tensors share it as
	// planned: partitions take their turns in the first epoch, too, in the same order.
	g := tangled(t)
	for name, share := range map[string]float64{"gin": 1. / 3, "pna": 1. / 3, "gcnii": 0, "both-gat": 0} {
		o := models[name]
		o.Epochs = 2
		add(name+", many times", g, o, "graph=1/4", share)
	}

	// Workers whose partitions are at work at the same time send each other windows of rows.
	small := tangle(t, 700, 1000)
	for i, name := range []string{"sage", "gcn"} {
		o := models[name]
		o.Hidden, o.KeepHalo, o.Prefetch, o.Seed, o.Epochs = 3*o.Hidden, i == 1, 1+2*i, uint64(2+i), 2
		add(name+" on several workers", small, o, fmt.Sprintf("graph=2/%d", 5+i), 0, .75, inMemory)
	}
	heads := apply(models["gatv2"], "output-heads 3, hidden 12, layers 2")
	add("unequal heads", small, heads, "graph=2,tensor=2/5", 0, inMemory).fits = true

	generated := func(o generate.Options) *graph.Graph {
		o.Classes, o.Seed, o.Directed = 5, 3, o.Kind == generate.Uniform
		g, err := generate.Graph(o)
		require.NoError(t, err)
		return g
	}
	with := func(words string) Options {
		o := apply(Defaults(), "epochs 3, lr 1e-4")
		return apply(o, words)
	}
	// What is made of all edges of a partition, as their degrees, brings these back from the disk. It is in
	// the plan also where the rows of the partition are few columns beside the edges.
	full := generated(generate.Options{Kind: generate.Uniform, Vertices: 12_000, Degree: 8, Features: 8})
	add("edges, sgc", full, with("model sgc"), "graph=1/4", fastest)
	add("edges, sage, decoupled", full, with("model sage, decoupled, hidden 8"), "graph=1/4", fastest)
	// With partial sums the edges are read in the first aggregation, which may be that of features that a
	// layer keeps. These rest as they are when it ends.
	covers := generated(generate.Options{Kind: generate.Uniform, Vertices: 4000, Degree: 6, Features: 32})
	add("covers, sage", covers, with("model sage, halo cover"), "graph=1/4", fastest)
	add("covers, gin", covers, with("model gin, halo cover"), "graph=2/4", fastest)
	// Where --wire-schedule sends fewer columns in early epochs, their messages are too small to rest in
	// others. The limit that suffices for the last epoch, which is planned, is kept in all.
	scheduled := generated(generate.Options{Kind: generate.RMAT, Scale: 13, EdgeFactor: 12, Features: 32})
	for workers := 1; workers <= 2; workers++ {
		o := with("wire-schedule varco:slope=1.5,from=4")
		add(fmt.Sprint("a schedule, ", workers), scheduled, o, fmt.Sprintf("graph=%d/6", workers), fastest)
	}

	for name, g := range labelled(t) {
		o := with("model gcn, layers 3, hidden 64, lr .001, epochs 4, label-input .5, dropout .1")
		add("label input, "+name, g, o, "graph=1/4", 0)
	}
	types := severalTypes(t)
	o := typesInTurns(types)["rgcn"]
	o.Hidden, o.Epochs = 24, 2
	add("types", types, o, "tensor=2/4", fastest)
	for name, c := range linksInTurns(t, large, types) {
		switch name {
		case "area", "distmult":
			add("links, "+name, c.g, c.Options, "graph=2/4", 1./3).any = true
		case "dot": // rows for edges come at any time; with more memory, all that wait stay there
			c := add("links, "+name, c.g, c.Options, "graph=2/4", 0, .75)
			c.any, c.messages = true, true
		default:
			add("links, "+name, c.g, c.Options, "graph=1/4", 0)
		}
	}

	// Learned embeddings and the optimizer's state
	bare := *large.Copy()
	bare.Types[0].Features = graph.Features{}
	for name, o := range map[string]Options{
		"sage":          with("model sage, node-embedding 64"),
		"rgcn":          with("model rgcn, clip .5, optimizer adamw"),
		"rgcn of bases": with("model rgcn, hidden 64, bases 3"),
		"links":         linked("epochs 3, model sage, node-embedding 64, precision bf16"),
	} {
		if o.Bases == 0 {
			o.Hidden = 16
		}
		c := add("tables, "+name, &bare, o, "graph=1/4", 0)
		c.again = "graph=2/4"
		if name == "sage" { // more than values, gradients and two moments
			c.tables = int64(4 * 4 * 64 * bare.Vertices())
		}
	}
	return all
}

// TestBytesInTurns: chunked total bytes equal unchunked ones (NeutronTP, section 4.2.2: a source that an
// earlier chunk has is not sent again). A decoupled model of C classes sends 4·V·C·(T−1)/T numbers between
// slices in an epoch. Between workers travel, for each round and its backward pass, the C columns of the
// sources that a partition reads of those of other workers.
func TestBytesInTurns(t *testing.T) {
	const rounds, float = 3, 4
	g := tangled(t)
	o := Defaults()
	o.Model, o.Decoupled, o.Layers, o.Epochs = "gcn", true, rounds, 2
	vertices, classes := int64(g.Vertices()), int64(g.Types[0].Labels.Classes)
	halo := int64(0)
	job := inTurns(Job{Graph: g, Options: o}, "graph=2,tensor=5")
	a, err := partition.Assign(t.Context(), g, job.Options.Assignment(g, 4))
	require.NoError(t, err)
	type read struct{ source, by int32 }
	seen, e := map[read]bool{}, g.Relations[0].Edges()
	for k, u := range e.Source {
		// workers hold two partitions each
		if r := (read{u, a.Parts[e.Target[k]]}); a.Parts[u]/2 != r.by/2 && !seen[r] {
			seen[r] = true
			halo += 2 * rounds * float * classes
		}
	}
	const slices = 5
	require.Equal(t, 0, classes%slices, "%d classes in %d slices", classes, slices)
	for mesh, halo := range map[string]int64{"tensor=5": 0, "graph=2,tensor=5": halo} {
		sent := mustRun(t, inTurns(Job{Graph: g, Options: o}, mesh)).Communication
		if want := 4 * float * vertices * classes * (slices - 1) / slices; sent.Layout.Bytes != want ||
			sent.Halo.Bytes != halo {
			t.Errorf(
				"%s: %d bytes in all-to-alls and %d between partitions, want %d and %d", mesh,
				sent.Layout.Bytes, sent.Halo.Bytes, want, halo,
			)
		}
	}
}

// TestMovedAsPlanned: drawn settings move in their last epoch, with the evaluation before it, the bytes that
// their plans say, and take their memory. A plan of links on several workers that does not know
// what these fetch of each other says that its bytes are a bound, and has the same memory.
func TestMovedAsPlanned(t *testing.T) {
	small, large, types, models := tangle(t, 500, 1000), tangle(t, 900, 3000), severalTypes(t), networks()
	bare := *large.Copy()
	bare.Types[0].Features = graph.Features{}
	groups := [3][]resting{1: {
		{g: &bare, Options: apply(Defaults(), "model rgcn, clip .5, optimizer adamw, hidden 16")},
		{g: &bare, Options: apply(Defaults(), "model sage, node-embedding 64, hidden 16, lr .1")},
		{g: &bare, Options: linked("model sage, node-embedding 64, precision bf16")},
	}}
	for i, name := range slices.Sorted(maps.Keys(models)) {
		groups[0] = append(groups[0], resting{g: []*graph.Graph{small, large}[i%2], Options: models[name]})
	}
	withTypes := typesInTurns(types)
	for _, name := range slices.Sorted(maps.Keys(withTypes)) {
		groups[1] = append(groups[1], resting{g: types, Options: withTypes[name]})
	}
	links := linksInTurns(t, large, types)
	for _, name := range []string{"among", "area", "dot"} {
		groups[2] = append(groups[2], links[name])
	}
	for i := range 15 {
		draw := rand.New(rand.NewPCG(uint64(i), 0))
		c := groups[i%3][draw.IntN(len(groups[i%3]))]
		k, share, parts := 4+draw.IntN(2), []float64{0, .1, .6, .9}[draw.IntN(4)], []int32(nil)
		o := c.Options
		o.Epochs, o.EvalEvery = []int{1, 2, 3, 5}[draw.IntN(4)], []setting.Every{0, 1, 2, 5}[draw.IntN(4)]
		o.Offload, o.Seed = t.TempDir(), draw.Uint64()
		if draw.IntN(2) == 0 && len(c.g.Types) == 1 { // nothing in the last partition
			for v := range c.g.Vertices() {
				parts = append(parts, int32(v*v%(k-1)))
			}
		}
		j := divided(t, c.g, o, k, parts)
		j.Options.Parallel = []string{"graph=1", "graph=2", "graph=3", "tensor=2"}[draw.IntN(4)]
		j.Options.Partitions = setting.Partitions(k)
		fetches := plan.Asks{Range: o.Task == task.Link} // it has what workers fetch of each other
		p, err := j.PlanWith(t.Context(), plan.Asks{Range: fetches.Range || share > 0})
		require.NoError(t, err)
		if share > 0 {
			j.Options.MemoryLimit = setting.Bytes(p.Least + int64(share*float64(p.All-p.Least)))
			p, err = j.PlanWith(t.Context(), fetches)
			require.NoError(t, err)
		}
		r, err := j.RunPlanned(t.Context(), &p)
		require.NoError(t, err)
		text := fmt.Sprintf("draw %d: %+v", i, j.Options)
		assert.Equal(t, p.Disk(), r.Disk, "%s: planned to move", text)
		if r.Workers == 1 || o.Task != task.Link {
			for k, graphs := range r.GraphBytes {
				assert.Equal(t, p.PeakTensorBytes[k]+p.GraphBytes[k], r.PeakTensorBytes[k]+graphs,
					"%s: worker %d is planned to take", text, k)
			}
		}
		if o.Task == task.Link && parts == nil {
			blind, err := j.Plan(t.Context())
			require.NoError(t, err)
			assert.Equal(t, p.PeakTensorBytes, blind.PeakTensorBytes, "%s: tensors", text)
			assert.Equal(t, p.Reserves(), blind.Reserves(), "%s: reserved", text)
			if p.AtMost || blind.AtMost != (r.Workers > 1) {
				t.Errorf("%s: bounds %v and %v", text, p.AtMost, blind.AtMost)
			}
		}
	}
}
