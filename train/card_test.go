package train

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/device/devicetest"
	"weft/gnn"
	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/trace"
	"weft/nn"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// TestOnCard: on a card every network has the CPU's losses, but for rounding, on one worker and on a mesh,
// and the memory of its plan to the byte.
func TestOnCard(t *testing.T) {
	devicetest.Library(t)
	g := tangle(t, 120, 100)
	all, meshes := networks(), []string{"graph=2", "tensor=2", "/3"}
	for k, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			for _, mesh := range []string{"", meshes[k%len(meshes)]} {
				j := onMesh(g, all[name], mesh)
				j.Options.LR, j.Options.Epochs = .001, 3
				want, err := j.Run(context.Background())
				require.NoError(t, err)
				j.Options.Device = setting.AllCards
				got, _ := planAndRun(t, j)
				if d := away(got.Losses, want.Losses); d > 1e-5 {
					t.Errorf("%s: losses differ from the CPU's by %.1e", mesh, d)
				}
				if all[name].Uses("attention-dropout") && len(got.Device.OnCPU) > 0 {
					t.Errorf("%s: on the CPU: %v", mesh, got.Device.OnCPU)
				}
				most := int64(0)
				for k, tensors := range got.PeakTensorBytes {
					most = max(most, tensors+got.GraphBytes[k])
				}
				assert.Equal(t, most, got.Device.PeakBytes, mesh)
			}
		})
	}
}

// TestOnCards: meshes have the same bits on any number of cards, and the memory of their plans. A card that
// fails ends all workers, and the error names it.
func TestOnCards(t *testing.T) {
	devicetest.Library(t)
	t.Setenv("ON_CPU_CARDS", "4")
	g := tangle(t, 120, 100)
	for mesh, settings := range map[string]string{
		"graph=4": "model gat, heads 4", "tensor=4": "model sage, norm batch",
		"graph=2,tensor=2": "model gcn", "graph=2/3": "model gcn", "pipeline=2": "model gcnii, layers 4, chunk-order fixed",
	} {
		j := onMesh(g, apply(Defaults(), settings+", epochs 2, hidden 16"), mesh)
		var first *Result
		for _, on := range []setting.Device{"cuda:2", "cuda:1,0", "cuda:0,3", setting.AllCards} {
			j.Options.Device = on
			r, _ := planAndRun(t, j)
			if first == nil {
				first = r
			}
			assert.Equal(t, first.Losses, r.Losses, mesh, on)
			numbers, _ := on.Cards()
			if numbers == nil {
				numbers = []int{0, 1, 2, 3}
			}
			for worker, number := range r.Device.Cards {
				assert.Equal(t, numbers[worker%len(numbers)], number, mesh, on)
			}
			assert.Len(t, r.Device.Cards, r.Workers)
		}
	}
	_, err := onMesh(g, apply(Defaults(), "model gcn, device cuda:3,1,0"), "graph=2").Run(t.Context())
	assert.Refused(t, err, "--device cuda:3,1,0: 3 cards, and each worker takes one; name no more than workers, ")
	t.Setenv("ON_CPU_FAIL", "cuLaunchKernel 20 1 2")
	_, err = onMesh(g, apply(Defaults(), "model gcn, device cuda"), "graph=4").Run(t.Context())
	assert.ErrorContains(t, err, "--device cuda: cuda:2: ")
	assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_VALUE")
}

// TestTogether: all workers have the part of a card's memory that the worker with least has, and cards of
// several kinds are named.
func TestTogether(t *testing.T) {
	on := func(id string, number int, bytes int64) found {
		return found{
			Number: number, ID: id, Name: "H" + id[:1], Driver: "13.0", Bytes: bytes, Free: bytes + 10,
		}
	}
	c := mergeCards("cuda", []found{on("1a", 0, 90), on("1b", 1, 90), on("1a", 0, 90)})
	assert.Equal(t, &worker.Cards{
		Device: "cuda", Name: "H1", Driver: "13.0", Bytes: 45, Free: 50, Numbers: []int{0, 1, 0},
	}, c)
	assert.Equal(t, "H1 (workers 0, 2 on cuda:0; 1 on cuda:1)", c.String())
	// processes that see one card each, of two machines
	c = mergeCards("cuda", []found{on("1a", 0, 90), on("1b", 0, 80), on("2a", 0, 70)})
	assert.Equal(t, int64(70), c.Bytes)
	assert.Equal(t, "H1, H2 (workers 0, 1, 2 on cuda:0)", c.String())
	assert.Equal(t, "H1", mergeCards("cuda:3", []found{on("1c", 3, 5)}).String())
}

// TestRestsBelowCard is TestRests of a card, whose matrices rest in the host's memory.
func TestRestsBelowCard(t *testing.T) {
	devicetest.Library(t)
	models, types, g := networks(), severalTypes(t), tangle(t, 600, 100)
	models["rgcn"] = typesInTurns(types)["rgcn"]
	deep, five := apply(models["rgcn"], "layers 3"), []float64{0, .1, .3, .6, inMemory}
	stages := func(words string) Options {
		return apply(Defaults(), "layers 3, chunk-order fixed, lr .001, "+words)
	}
	for k, c := range []resting{
		{g: g, Options: models["gcn"], limits: five},
		{g: g, Options: models["sage"], limits: five},
		{g: g, Options: models["gat"], limits: five},
		{g: g, Options: models["gcnii"], limits: five},
		{g: types, Options: models["rgcn"], again: "graph=2/4", limits: five},
		{g: types, Options: deep, mesh: "graph=4/9", limits: []float64{0, .05, .1, .15, inMemory}},
		{
			g: g, Options: stages("model sage, norm layer, chunks 3, history-period 1"), mesh: "pipeline=2",
			again: "pipeline=2", limits: []float64{0, .3, .6, inMemory},
		},
		{
			g: g, Options: stages("model gcnii, chunks 4, stale-gradients keep, history-start warm"),
			mesh: "graph=2,pipeline=2", again: "graph=2,pipeline=2",
		},
		{g: g, Options: stages("model gcn, chunks 3, recompute blocks"), mesh: "tensor=2,pipeline=2"},
	} {
		if c.Hidden, c.Epochs = 32, 2; c.again != "" {
			c.Epochs = 3
		}
		if c.mesh == "" {
			c.mesh = "graph=1/4"
		}
		if c.limits == nil {
			c.limits = []float64{0, .3}
		}
		t.Run(c.Model+" on "+c.mesh, func(t *testing.T) {
			t.Setenv("ON_CPU_EARLY", fmt.Sprint(k%2))
			c.run(t, setting.RAM)
		})
	}
}

// TestCardFailsWhileRanksRest: whichever call of the driver fails, the error names the device, and no rank
// waits for another.
func TestCardFailsWhileRanksRest(t *testing.T) {
	devicetest.Library(t)
	j := onMesh(tangle(t, 600, 100), apply(Defaults(), "model gcn, hidden 32, epochs 2"), "graph=1/4")
	j.Options.Device, j.Options.Offload = setting.AllCards, setting.RAM
	p, err := j.PlanWith(t.Context(), plan.Asks{Range: true})
	require.NoError(t, err)
	j.Options.MemoryLimit = setting.Bytes(p.Least)
	failCalls(t, j, "cuMemHostAlloc 1", "cuLaunchKernel 300", "cuEventRecord 9", "cuEventRecord 40",
		"cuStreamWaitEvent 20", "cuMemcpyHtoDAsync_v2 60", "cuMemcpyDtoHAsync_v2 7",
		"cuMemcpyDtoHAsync_v2 40", "cuEventSynchronize 5", "cuMemFreeHost 1")
	for limit, want := range map[setting.Bytes]string{
		setting.Bytes(p.Least): fmt.Sprintf("--host-memory-limit 1kB: %s would rest in the host's memory",
			setting.Bytes(restsOf(t, j)).RoundedUp()),
		setting.Bytes(p.Least * 9 / 10): fmt.Sprintf("would need %[1]s of the card, and may have %[2]s; "+
			"raise the limit to %[1]s, try another number of --partitions",
			setting.Bytes(p.Least).RoundedUp(), setting.Bytes(p.Least*9/10).Rounded()),
	} {
		j.Options.MemoryLimit, j.Options.HostMemoryLimit = limit, 1000
		_, err := j.Run(context.Background())
		assert.Refused(t, err, want)
	}
}

// failCalls runs a job on a card of whose driver one call fails, each time another one.
func failCalls(t *testing.T, j *Job, calls ...string) {
	t.Helper()
	folder, library := t.TempDir(), os.Getenv("WEFT_CUDA")
	for k, call := range calls {
		another := fmt.Sprint(folder, "/", k) // a card of another library is opened anew
		require.NoError(t, os.Symlink(library, another))
		t.Setenv("WEFT_CUDA", another)
		t.Setenv("ON_CPU_FAIL", call+" 1")
		_, err := j.Run(context.Background())
		text, message := fmt.Sprint(err), "CUDA_ERROR_INVALID_VALUE"
		if !strings.HasPrefix(text, "--device cuda: ") || !strings.Contains(text, message) {
			t.Errorf("%s: %s", call, text)
		}
	}
	t.Setenv("ON_CPU_FAIL", "")
	t.Setenv("WEFT_CUDA", library)
}

// TestCardFailsInMessages: whichever call of the driver for a message fails, the error names the device, and
// no worker waits for another.
func TestCardFailsInMessages(t *testing.T) {
	devicetest.Library(t)
	for mesh, calls := range map[string][]string{
		"graph=2": {
			"cuMemHostAlloc 3", "cuEventCreate 70", "cuEventRecord 3", "cuMemcpyDtoHAsync_v2 2",
			"cuEventSynchronize 2", "cuMemcpyHtoDAsync_v2 20", "cuStreamWaitEvent 7", "cuEventDestroy_v2 1",
		},
		"tensor=2":   {"cuEventSynchronize 9", "cuMemcpyDtoHAsync_v2 5"},
		"pipeline=2": {"cuEventSynchronize 3", "cuEventRecord 20"},
	} {
		o := apply(Defaults(), "model sage, layers 3, hidden 8, epochs 3")
		j := onMesh(tangle(t, 120, 100), o, mesh)
		j.Options.Device, j.Options.CommTimeout = setting.AllCards, 0
		failCalls(t, j, calls...)
	}
}

// restsOf is what rests of a job in the host's memory, as planned.
func restsOf(t *testing.T, j *Job) int64 {
	t.Helper()
	p, err := j.Plan(t.Context())
	require.NoError(t, err)
	return p.HostBytes(0)
}

// TestMessagesOnCard: chunks of stages, and of their partitions, have what kernels wrote into messages. The
// card encodes and decodes these, and makes partial sums: nothing of them runs on the CPU.
func TestMessagesOnCard(t *testing.T) {
	devicetest.Library(t)
	g := tangle(t, 300, 1500) // one of whose vertices has so many edges that they are cut into segments
	for mesh, settings := range map[string][]string{
		"pipeline=2":         {"norm layer", "wire int8", "wire bf16"},
		"graph=2,pipeline=2": {"norm layer", "wire int4"},
		"graph=2,tensor=2":   {"norm layer", "wire int8"},
		"tensor=2":           {"wire int4", "wire bf16", "wire int8, model gat, heads 2"},
		"graph=2": {
			"wire int8", "wire int4", "wire bf16", "halo cover", "halo cover, wire int8, model gcn",
			"wire-schedule varco:slope=1.5,from=4", "wire int8, model gat, heads 2",
		},
		"graph=4": {"wire int4, halo cover", "wire bf16, precision bf16, model gcn"},
		"/3":      {"wire int8", "halo cover, wire int4"},
	} {
		for _, words := range settings {
			j := onMesh(g, apply(apply(Defaults(), "model sage, layers 3, epochs 4"), words), mesh)
			j.Options.LR = .001
			want := mustRun(t, j)
			j.Options.Device = setting.AllCards
			got := mustRun(t, j)
			bound := 1e-5
			if strings.Contains(words, "int") || strings.Contains(words, "bf16") {
				bound = 1e-3 // a number that differs by rounding may become the next code
			}
			if d := away(got.Losses, want.Losses); d > bound {
				t.Errorf("%s, %s: losses differ from the CPU's by %.1e", mesh, words, d)
			}
			if len(got.Device.OnCPU) > 0 {
				t.Errorf("%s, %s: on the CPU: %v", mesh, words, got.Device.OnCPU)
			}
		}
	}
}

// TestTF32OnCard: with 3×TF32 losses are those of f32 but for rounding, with other bits, on one worker and on
// meshes, with the memory of the plan. A run that was stopped goes on to the same bits.
func TestTF32OnCard(t *testing.T) {
	devicetest.Library(t)
	g := tangle(t, 120, 100)
	for mesh, words := range map[string]string{
		"": "model gat, heads 2", "graph=2": "model sage, norm batch", "tensor=2": "model gcn",
		"/3": "model gin",
	} {
		o := apply(Defaults(), words+", epochs 6, hidden 40, device cuda")
		o.LR = .001
		j := onMesh(g, o, mesh)
		want := mustRun(t, j)
		j.Options.Precision = "tf32x3"
		got, _ := planAndRun(t, j)
		if d := away(got.Losses, want.Losses); d > 1e-4 {
			t.Errorf("%s: losses differ from those of f32 by %.1e", mesh, d)
		}
		if slices.Equal(got.Losses, want.Losses) {
			t.Errorf("%s: losses have the bits of f32", mesh)
		}
	}
	j := &Job{Graph: g, Options: apply(Defaults(), "model sage, epochs 2, hidden 4, precision tf32x3, device auto")}
	mustRun(t, j)
	t.Setenv("WEFT_CUDA", "/nowhere")
	_, err := j.Run(context.Background())
	assert.Refused(t, err, "--precision tf32x3: the CPU computes")
}

// TestChunksOnCard: on a card, too, the number of aggregation chunks changes no bit.
func TestChunksOnCard(t *testing.T) {
	devicetest.Library(t)
	g := tangle(t, 60, 90)
	var want []float64
	for _, chunks := range []string{"1", "2", "5"} {
		r := mustRun(t, &Job{Graph: g, Options: apply(Defaults(), "model gcn, layers 2, hidden 4, epochs 3, "+
			"threads 1, device cuda, parallel tensor=2, aggregation-chunks "+chunks)})
		if want == nil {
			want = r.Losses
		}
		assert.Equal(t, want, r.Losses, "%s chunks", chunks)
	}
}

// TestBestOnCard: predictions are of the best weights, which come back after an epoch without a step.
func TestBestOnCard(t *testing.T) {
	devicetest.Library(t)
	o := apply(Defaults(), "model sage, dropout 0, epochs 60, patience 4")
	o.LR = .1
	j := onMesh(tangle(t, 300, 100), o, "")
	j.Options.Device = setting.AllCards
	r := mustRun(t, j)
	require.Equal(t, EndedPatience, r.Ended)
	j.Options.Device = setting.CPU
	p, err := j.Predict(context.Background(), r.Weights, Logits)
	require.NoError(t, err)
	for k, x := range p.Logits {
		assert.Near(t, float64(x), float64(r.Logits[k]), 1e-4, k)
	}
}

// TestModuleOnCard: a message function, its products with weights and its gradients compute on the card, with
// the CPU's losses and the memory of the plan, also where edges lead to more rows than a batch has.
func TestModuleOnCard(t *testing.T) {
	devicetest.Library(t)
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 33_000, Degree: 1, Features: 13, Classes: 5, Seed: 3, Directed: true,
	})
	require.NoError(t, err)
	all, few := g.Relations[0].Edges(), graph.Edges{}
	for k := 0; k < len(all.Source); k += 100 {
		few.Source, few.Target = append(few.Source, all.Source[k]), append(few.Target, all.Target[k])
	}
	g.Relations[0], err = graph.NewRelation(33_000, few)
	require.NoError(t, err)
	o := programOptions(t, map[string][]int{"v": {4, 13}, "u": {4, 4}, "w": {5, 4}}, `"operations":[
		{"op":"features","shape":[13]},{"op":"parameter","name":"v"},{"op":"linear","in":[0,1]},
		{"op":"gather","in":[2],"end":"source"},{"op":"gather","in":[2],"end":"target"},{"op":"sub","in":[4,3]},
		{"op":"tanh","in":[5]},{"op":"parameter","name":"u"},{"op":"linear","in":[6,7]},
		{"op":"scatter","in":[8],"reduce":"max"},
		{"op":"parameter","name":"w"},{"op":"linear","in":[9,10]}],"output":11`)
	o.Epochs = 3
	j := &Job{Graph: g, Options: o}
	want := mustRun(t, j)
	j.Options.Device = setting.AllCards
	got, _ := planAndRun(t, j)
	if d := away(got.Losses, want.Losses); d > 1e-6 {
		t.Errorf("losses differ from the CPU's by %.1e", d)
	}
	assert.Len(t, got.Device.OnCPU, 0)
	assert.Equal(t, got.PeakTensorBytes[0]+got.GraphBytes[0], got.Device.PeakBytes)
}

// TestOwnOnCard: a model or a loss of the job's own is refused on a card, and --device auto has the CPU
// compute it.
func TestOwnOnCard(t *testing.T) {
	devicetest.Library(t)
	o := apply(Defaults(), "epochs 1, hidden 4, device cuda")
	loss := func(*autograd.Var, nn.Labels) *autograd.Var { panic("called") }
	model := func(features, classes int) []gnn.BlockSpec {
		blocks, err := o.Blocks(gnn.OneType(features, 1), classes)
		require.NoError(t, err)
		return blocks
	}
	g := tangle(t, 60, 10)
	for _, j := range []*Job{{Graph: g, Options: o, Model: model}, {Graph: g, Options: o, Loss: loss}} {
		_, err := j.Run(context.Background())
		assert.Refused(t, err, "--device cuda: the job has a model or a loss of its own")
	}
	j := &Job{Graph: g, Options: o, Model: model}
	j.Options.Device = setting.AutoDevice
	r, err := j.Run(context.Background())
	require.NoError(t, err)
	if r.Device != nil {
		t.Errorf("computed on %+v", r.Device)
	}
}

// TestStepIsInSeconds: an epoch on a card does not end before the optimizer's step. Where the card sums the
// loss, the host reads that after the step: it waits once there, and once in an evaluation. Where the host
// computes the loss, it waits for the output, the gradient, and then for the step, and thrice in an
// evaluation.
func TestStepIsInSeconds(t *testing.T) {
	devicetest.Library(t)
	g := tangle(t, 300, 100)
	waits := func(g *graph.Graph, settings string) int {
		o := apply(Defaults(), "epochs 3, hidden 16, device cuda, select loss, "+settings)
		return mustRun(t, &Job{Graph: g, Options: o}).Device.Waits
	}
	assert.Equal(t, 2, waits(g, "model gcn"), "cross-entropy")
	assert.Equal(t, 6, waits(withValues(g), "model gcn"), "values")
}

// launchesOf lists how many launches of an epoch belong to which of its phases. The rest of all is of the
// evaluation before it, and copies the values of the best epoch.
func launchesOf(events []trace.Event, all int) (lines string) {
	phases := []string{"forward", "loss", "backward", "optimizer step"}
	spans, count := map[string]trace.Event{}, map[string]int{}
	for _, e := range events {
		if e.Category == trace.Phase && slices.Contains(phases, e.Name) {
			spans[e.Name] = e
		}
	}
	for _, e := range events {
		launches := 1 + strings.Count(e.Name, "+")
		if e.Name == "weight" {
			launches++ // of its merge
		}
		for name, phase := range spans {
			if e.Category == trace.Compute && phase.Start <= e.Start && e.End <= phase.End {
				count[name] += launches
				all -= launches
			}
		}
	}
	for _, name := range phases {
		lines += fmt.Sprintf("\t%d\t\t%s\n", count[name], name)
	}
	return lines + fmt.Sprintf("\t%d\t\tevaluation, and copies of the best values\n", all)
}

var update = flag.Bool("update", false, "write the list of copies anew")

// TestCopies: in an epoch on a card nothing is copied between it and the host, nor waited for, but what
// stands in testdata/copies.txt: by matrix, and by the function that needs it. The list has the launches of
// kernels, too, of all workers, and of one worker those of each phase, also with Cora's settings. The epoch
// is the second one, which copies the values of the first, the best so far. go test -run Copies -update
// writes it.
func TestCopies(t *testing.T) {
	devicetest.Library(t)
	g := tangle(t, 300, 100)
	var text strings.Builder
	for _, settings := range []string{
		"model gcn", batchSAGE, "model gat, heads 4", "model gin", "model gcnii, layers 4",
		"model mlp, norm layer", "model appnp", "model sage, norm batch, parallel graph=4",
		coraGCN, coraGAT,
	} {
		o := apply(Defaults(), strings.Split(settings, ", parallel")[0]+", epochs 2, hidden 32, device cuda")
		_, mesh, _ := strings.Cut(settings, ", parallel ")
		j := onMesh(g, o, mesh)
		j.Trace = true
		r := mustRun(t, j)
		fmt.Fprintf(&text, "%s\n\t%d\tlaunches\n", settings, r.Device.Launches)
		if mesh == "" {
			text.WriteString(launchesOf(r.Trace.Workers[0].Events, r.Device.Launches))
		}
		copies := map[string]int{}
		for _, e := range r.Trace.Workers[0].Events {
			if e.Category == trace.Copy {
				copies[fmt.Sprintf("%s\t%v\t%s", e.Name, e.Args.Shape, e.Args.Caller)]++
			}
		}
		for _, what := range slices.Sorted(maps.Keys(copies)) {
			fmt.Fprintf(&text, "\t%d\t%s\n", copies[what], what)
		}
	}
	const file = "testdata/copies.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text.String())
}
