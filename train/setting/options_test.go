package setting

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/tensor"
)

func TestEveryFieldIsASetting(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		s, ok := settingNamed(f.Tag.Get("yaml"))
		if f.Anonymous || !f.IsExported() { // whose fields follow, or what a file has that a setting names
			continue
		}
		if !ok || s.Meaning == "" {
			t.Errorf("field %s: no setting with a meaning is named %q", f.Name, f.Tag.Get("yaml"))
		}
	}
}

func TestDefaultsAreValid(t *testing.T) {
	for _, model := range gnn.Names() {
		o := Defaults()
		o.Model = model
		_, err := o.Resolve()
		assert.NoError(t, err, model)
		if u := o.Unused(); u != nil {
			t.Errorf("%s: defaults count as unused: %v", model, u)
		}
	}
}

// TestNeeds: a setting of some optimizers is refused beside another, and taken beside each of them.
func TestNeeds(t *testing.T) {
	for optimizer, want := range map[string]string{
		"adam": "", "adamw": "",
		"sgd": "--adam-beta2 0.9: belongs to --optimizer adam or adamw; give that, or leave it out",
	} {
		o := Defaults()
		o.Optimizer, o.AdamBeta2 = optimizer, .9
		_, err := o.Resolve()
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("%s: %v, want %q", optimizer, err, want)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"model", "nosuch", "--model nosuch: unknown model; it is one of " + strings.Join(gnn.Names(), ", ")},
		{"hidden", "-3", "--hidden -3: must be at least 1 and at most 1048576"},
		{"bases", "1001", "--bases 1001: must be at least 0 and at most 1000"},
		{"layers", "0", "--layers 0"},
		{"dropout", "1.5", "--dropout 1.5: must be at least 0 and below 1"},
		{"dropout", "1", "--dropout 1"},
		{"input-dropout", "-0.1", "--input-dropout -0.1"},
		{"dropout", "NaN", "--dropout NaN"},
		{"lr", "0", "--lr 0: must be above 0"},
		{"lr", "Inf", "--lr +Inf"},
		{"weight-decay", "-1", "--weight-decay -1: must be at least 0"},
		{"activation", "swish", "unknown activation; it is one of none, relu, elu, leaky-relu, tanh, " +
			"sigmoid, gelu"},
		{"optimizer", "lion", "unknown optimizer; it is one of adam, adamw, sgd"},
		{"momentum", "1", "--momentum 1: must be at least 0 and below 1"},
		{"momentum", "0.9", "--momentum 0.9: belongs to --optimizer sgd; give that, or leave it out"},
		{"adam-beta2", "0", "--adam-beta2 0: must be above 0 and below 1"},
		{"adam-beta2", "1", "--adam-beta2 1: must be above 0 and below 1"},
		{"warmup", "-1", "--warmup -1: must be at least 0"},
		{"plateau-factor", "1", "--plateau-factor 1: must be above 0 and below 1"},
		{"plateau-factor", "0.5", "--plateau-factor 0.5: belongs to --schedule plateau; give that, or " +
			"leave it out"},
		{"plateau-patience", "3", "--plateau-patience 3: belongs to --schedule plateau; give that, or " +
			"leave it out"},
		{
			"norm", "instance",
			"--norm instance: unknown norm; it is one of auto, none, batch, layer, graph, pair",
		},
		{"precision", "f16", "--precision f16"},
		{"recompute", "some", "--recompute some: unknown recompute; it is one of auto, none, blocks"},
		{"parallel", "graph=0", "mesh"},
		{"parallel", "pipeline=4", "pipeline=4: each stage has a layer (one that aggregates, where a " +
			"model has such), and the model has 2; take --parallel graph=2,pipeline=2"},
		{"parallel", "pipeline=3", "the model has 2; take --parallel graph=3"},
		{"parallel", "nosuch=2", `no axis "nosuch"`},
		{"parallel", "graph=1,graph=1", "twice"},
		{"parallel", "graph", "AXIS=N"},
		{"label-smoothing", "1", "--label-smoothing 1"},
		{"loss", "hinge", "--loss hinge: unknown loss"},
		{"focal-gamma", "-1", "--focal-gamma -1"},
	} {
		o := Defaults()
		s, _ := settingNamed(c.name)
		require.NoError(t, s.Set(&o, c.text), "%s %s", c.name, c.text)
		_, err := o.Resolve()
		assert.Refused(t, err, c.want, "%s %s", c.name, c.text)
	}
}

// TestNamesInAnyCase: names are read in any case, and written as they are listed.
func TestNamesInAnyCase(t *testing.T) {
	o := Defaults()
	for name, text := range map[string]string{
		"model": "GCN", "wire": "Int8", "halo": "COVER",
		"chunks": "Auto", "recompute": "Blocks",
	} {
		s, _ := settingNamed(name)
		if err := s.Set(&o, text); err != nil || s.Text(&o) != strings.ToLower(text) {
			t.Errorf("%s %s: %s, %v", name, text, s.Text(&o), err)
		}
	}
	assert.NoError(t, o.CheckValues())
}

// TestExact: training is approximate where partitions are divided into chunks, or workers send fewer bits or
// columns.
func TestExact(t *testing.T) {
	for _, c := range []struct {
		parallel, wire, schedule, precision string
		exact, but                          bool // but: without the settings of what is sent
	}{
		{"graph=2", "auto", "none", "f32", true, true},
		{"graph=2", "f32", "none", "f32", true, true},
		{"graph=2", "bf16", "none", "f32", false, true},
		{"graph=2", "bf16", "none", "bf16", true, true},
		{"graph=2", "int8", "none", "bf16", false, true},
		{"tensor=2", "int4", "none", "f32", false, true},
		{"graph=2", "auto", "varco", "f32", false, true},
		{"pipeline=2", "auto", "none", "f32", false, false},
		{"pipeline=2", "int8", "none", "f32", false, false},
	} {
		o := Defaults()
		o.Model, o.Layers, o.Parallel, o.Precision = "gcnii", 4, c.parallel, c.precision
		for _, s := range All() {
			switch s.Name {
			case "wire":
				require.NoError(t, s.Set(&o, c.wire))
			case "wire-schedule":
				require.NoError(t, s.Set(&o, c.schedule))
			}
		}
		r, err := o.Resolve()
		require.NoError(t, err, "%+v", c)
		assert.Equal(t, c.exact, r.Exact(), "%+v", c)
		assert.Equal(t, c.but, r.Exact("wire", "wire-schedule"), "%+v", c)
	}
}

// TestTurnedOffOnAnyMesh: a given setting that asks for nothing is accepted on a mesh that it is not for, and
// one that asks for something is refused there, also for its default.
func TestTurnedOffOnAnyMesh(t *testing.T) {
	for _, parallel := range []string{"", "tensor=2"} {
		o := Defaults()
		o.Parallel = parallel
		_, err := o.Resolve("wire-schedule", "keep-halo")
		assert.NoError(t, err)
		for _, name := range []string{"halo", "prefetch", "chunks"} {
			if _, err := o.Resolve(name); err == nil || !strings.HasPrefix(err.Error(), "--"+name) {
				t.Errorf("%s on %q: %v", name, parallel, err)
			}
		}
	}
}

func TestHeadsDivideHidden(t *testing.T) {
	o := Defaults()
	o.Model, o.Hidden, o.Heads = "gat", 30, 4
	_, err := o.Resolve()
	assert.ErrorContains(t, err, "heads 4", "gat with 4 heads of 30")
	o.Model = "gcn"
	_, err = o.Resolve()
	assert.NoError(t, err, "gcn has no heads")
	want := "--heads 4: the model gcn does not use it; leave it out, or take --model gat, gatv2, transformer"
	_, err = o.Resolve("heads")
	assert.EqualError(t, err, want, "heads of gcn, given")
	assert.Equal(t, []string{"heads"}, o.Unused())
}

// TestOwnPass: all settings are named for which an evaluation has a pass of its own, so that leaving them out
// needs one look.
func TestOwnPass(t *testing.T) {
	o := Defaults()
	for _, c := range []struct {
		dropout        float64
		validate, want string
	}{{.5, "b", "--dropout 0.5, --validate b"}, {0, "b", "--validate b"}, {0, "", ""}} {
		o.Dropout, o.Validate = c.dropout, c.validate
		r, err := o.Resolve()
		require.NoError(t, err)
		blocks, err := r.Blocks(gnn.OneType(3, 0), 2)
		require.NoError(t, err)
		assert.Equal(t, c.want, r.OwnPass(blocks))
	}
}

// TestDropoutOfDecoder: the decoder of edges has dropout behind every model, between its layers.
func TestDropoutOfDecoder(t *testing.T) {
	for _, c := range []struct {
		model, task string
		layers      int
		accepted    bool
	}{
		{"sgc", "edge", 2, true},
		{"sgc", "edge", 1, false},
		{"sgc", "vertex", 2, false},
		{"sgc", "link", 2, false},
		{"gcn", "edge", 1, true},
		{"mlp", "edge", 3, true},
	} {
		o := Defaults()
		o.Model, o.Task, o.DecoderLayers, o.Dropout = c.model, c.task, c.layers, .3
		run := map[string]string{"model": c.model, "task": c.task, "decoder-layers": strconv.Itoa(c.layers)}
		assert.Equal(t, c.accepted, UsedBy(run, "dropout"), fmt.Sprint(c))
		if c.task != "edge" {
			o.DecoderLayers = 2 // it belongs to --task edge
		}
		r, err := o.Resolve("dropout")
		if !c.accepted {
			assert.Refused(t, err, "--dropout 0.3: the model sgc does not use it; leave it out", fmt.Sprint(c))
			continue
		}
		require.NoError(t, err)
		text, err := r.YAML()
		require.NoError(t, err)
		assert.Equal(t, true, strings.Contains(string(text), "dropout: 0.3\n"), fmt.Sprint(c))
	}
}

// TestHiddenBehindModels: the hidden width is that of outputs and of a decoder which have none of their own,
// behind every model.
func TestHiddenBehindModels(t *testing.T) {
	for _, c := range []struct {
		task                    string
		out, decoderHidden      int
		decoderLayers, accepted int
	}{
		{"link", 0, 0, 2, 1},
		{"link", 5, 0, 2, 0},
		{"edge", 0, 7, 2, 1},
		{"edge", 5, 0, 2, 1},
		{"edge", 5, 7, 2, 0},
		{"edge", 5, 0, 1, 0},
		{"vertex", 0, 0, 2, 0},
	} {
		o := Defaults()
		o.Model, o.Task, o.Hidden, o.OutFeatures = "sgc", c.task, 8, c.out
		o.DecoderHidden, o.DecoderLayers = c.decoderHidden, c.decoderLayers
		run := map[string]string{}
		for _, s := range All() {
			run[s.Name] = s.Text(&o)
		}
		assert.Equal(t, c.accepted == 1, UsedBy(run, "hidden"), fmt.Sprint(c))
		r, err := o.Resolve("hidden")
		if c.accepted == 0 {
			assert.Refused(t, err, "--hidden 8: the model sgc does not use it; leave it out", fmt.Sprint(c))
			continue
		}
		require.NoError(t, err)
		text, err := r.YAML()
		require.NoError(t, err)
		assert.Equal(t, true, strings.Contains(string(text), "\nhidden: 8\n"), fmt.Sprint(c))
		assert.Equal(t, 0, len(r.Unused()), fmt.Sprint(c))
	}
}

// TestTF32: 3×TF32 is of float32 on cards; the CPU refuses it, and without cards the options have f32.
func TestTF32(t *testing.T) {
	o := Defaults()
	o.Precision = "tf32x3"
	_, err := o.Resolve()
	assert.EqualRefusal(t, err, "--precision tf32x3: the CPU computes; take --device cuda, or --precision f32")
	for _, device := range []Device{AllCards, "cuda:1", AutoDevice} {
		o.Device = device
		r, err := o.Resolve()
		require.NoError(t, err)
		assert.Equal(t, true, r.TF32, device)
		assert.Equal(t, tensor.Float32, r.Storage, device)
	}
	o.LeaveCards()
	r, err := o.Resolve()
	require.NoError(t, err)
	assert.Equal(t, false, r.TF32)
	assert.Equal(t, "f32", r.Precision)
	o.Precision = "bf16"
	o.LeaveCards()
	assert.Equal(t, "bf16", o.Precision)
}

// TestWireRefuses: a format that would say no more than what is stored, and one where nothing travels.
func TestWireRefuses(t *testing.T) {
	o := Defaults()
	o.Precision, o.Wire, o.Parallel = "bf16", axis.Float32, "graph=2"
	want := "--wire f32: with --precision bf16 values are stored in bf16, and more bits would tell nothing " +
		"more; leave it out, or take int8 or int4"
	_, err := o.Resolve()
	assert.EqualRefusal(t, err, want)
	o.Wire, o.Parallel = axis.Int8, ""
	want = "--wire int8: belongs to a mesh of more than one worker; give --parallel graph=N, or leave it out"
	_, err = o.Resolve()
	assert.EqualRefusal(t, err, want)
	for precision, wires := range map[string]map[string]kernel.Format{
		"f32": {
			"auto": kernel.AsStored, "f32": kernel.AsStored, "bf16": kernel.InBFloat16,
			"int8": kernel.InInt8, "int4": kernel.InInt4,
		},
		"bf16": {
			"auto": kernel.AsStored, "bf16": kernel.AsStored, "int8": kernel.InInt8, "int4": kernel.InInt4,
		},
	} {
		for wire, format := range wires {
			o.Precision, o.Parallel = precision, "tensor=2"
			read(t, &o.Wire, wire)
			r, err := o.Resolve()
			require.NoError(t, err)
			assert.Equal(t, format, r.Wire.Format(r.Storage), "wire %s with precision %s: format", wire,
				precision)
		}
	}
}

// TestFormsRefuse: what a model cannot do in the form asked for, and what it can do in another form alone, is
// refused by name.
func TestFormsRefuse(t *testing.T) {
	for _, c := range []struct {
		set  string
		want string // "": it is accepted
	}{
		{"model mlp, decoupled", "decoupled: the model mlp has no decoupled form; it is there for gcn, " +
			"sage, gat, gin"},
		{"model gatv2, decoupled, heads 8", "decoupled: the model gatv2 has no decoupled form; it is " +
			"there for gcn, sage, gat, gin"},
		{"model gcn, decoupled, direction both", "--direction both: a decoupled model aggregates along one " +
			"direction; take --direction in or out"},
		{
			"model gat, decoupled, heads 8",
			"--heads 8: belongs to the layers of gat that aggregate, which it lacks with --decoupled; " +
				"leave it out",
		},
		{"model gat, decoupled, transform-dropout .5", "--transform-dropout 0.5: belongs to the layers of " +
			"gat that aggregate"},
		{"model gin, teleport .1", "--teleport 0.1: belongs to a decoupled model; give --decoupled, or " +
			"leave it out"},
		{"model gcn, decoupled, blocks residual", "--blocks residual: belongs to the layers of gcn that " +
			"aggregate, which it lacks with --decoupled; leave it out"},
		{"model gcnii, decoupled", "decoupled: the model gcnii has no decoupled form; it is there for " +
			"gcn, sage, gat, gin"},
		{"model gcnii, direction both", "--direction both: gcnii aggregates along one direction; take " +
			"--direction in or out"},
		{"blocks residual, residual", "--residual true: residual blocks do without it; leave it out, or " +
			"take --blocks plain"},
		{"task link, decoder distmult, blocks residual", "--decoder distmult: its weights have the name of " +
			"the linear decoder of --blocks residual, decoder.weight; take --decoder dot, or --blocks plain"},
		{
			"model gat, blocks residual, heads 8, output-heads 2",
			"--output-heads 2: residual blocks do without it",
		},
		{
			"aggregation max, aggregation-order transform-first",
			"--aggregation-order transform-first: with --aggregation max a layer aggregates first",
		},
		{"model rgcn, num-blocks 4, bases 3", "--bases 3 and --num-blocks 4: relations share weights in one " +
			"of the two ways; leave one out"},
		{"model rgcn, num-blocks 5", "--num-blocks 5 does not divide --hidden 64: blocks are of equal size"},
		{"model rgcn, num-blocks -1", "--num-blocks -1: must be at least 0"},
		{"model rgcn, num-blocks 4, parallel pipeline=2", ""},
		{"model rgcn, num-blocks 5, layers 1, hidden 64", ""},
		{"model rgcn, bases -1", "--bases -1: must be at least 0"},
		{"device cuda, task link", ""},
		{"device CUDA:3, model gat, decoupled", "--device cuda:3 with --decoupled: the CPU computes attention"},
		{"device cuda, partitions 2, offload d", "--device cuda with --offload d: matrices of a card rest in the host's memory"},
		{"device cuda, partitions 2, offload ram, host-memory-limit 1MB", ""},
		{"partitions 2, offload ram", "--offload ram: without a card all matrices are in the host's memory; take --device cuda"},
		{"device cuda, host-memory-limit 1MB", "--host-memory-limit"},
		{"device cuda, parallel graph=2, device-messages", ""},
		{"device cuda, device-messages", "--device-messages true: belongs to a mesh of more than one worker"},
		{"parallel graph=2, device-messages", "--device-messages true: the CPU computes; take --device cuda"},
		{"device cuda, parallel graph=2, partitions 4, device-messages", "--device-messages true: partitions that take turns"},
		{"device cuda, parallel pipeline=2, layers 3, chunk-order fixed, offload ram, device-messages", "--device-messages true: with --offload ram"},
		{"device cuda, model gcn, decoupled", ""},
		{"device cpu, task link", ""},
		{"device auto, task link", ""},
		{"decoupled, teleport 1", "--teleport 1: must be at least 0 and below 1"},
		{"model gat, decoupled, attention-dropout .5", ""},
		{"model gcn, decoupled, direction out, residual", ""},
	} {
		o := Defaults()
		for word := range strings.SplitSeq(c.set, ", ") {
			name, text, _ := strings.Cut(word, " ")
			s, _ := settingNamed(name)
			require.NoError(t, s.Set(&o, cmp.Or(text, "true")), word)
		}
		_, err := o.Resolve()
		if c.want == "" && err != nil ||
			c.want != "" && (!refusal.Is(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestOneWorkerMesh(t *testing.T) {
	for _, mesh := range []string{"", "graph=1", "graph=1,tensor=1", "samples=1"} {
		o := Options{Parallel: mesh}
		if m, _, err := o.mesh(); m.Workers() != 1 || err != nil {
			t.Errorf("%q: %+v, %v", mesh, m, err)
		}
	}
}

// TestSampleGroups: groups of samples are workers of a loop of one's own alone, where each holds all of the
// mesh.
func TestSampleGroups(t *testing.T) {
	o := Defaults()
	o.Parallel = "graph=2,samples=3,tensor=2"
	_, err := o.Resolve()
	assert.Refused(t, err, "--parallel graph=2,samples=3,tensor=2: samples on several groups of workers are of a loop")
	require.NoError(t, o.ForLoop())
	r, err := o.Resolve()
	require.NoError(t, err)
	assert.Equal(t, []int{3, 12, 12, 4}, []int{r.SampleGroups, r.Workers, r.Ranks(), r.Mesh.Workers()})
	assert.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, r.Holders())
	assert.Equal(t, []int{0, 1, 1}, []int{r.PartitionOf(4), r.PartitionOf(6), r.PartitionOf(11)})
	assert.Equal(t, false, r.TakesTurns())
	o.Partitions = 4
	_, err = o.Resolve()
	assert.Refused(t, err, "partitions take turns where one group takes all samples")
	o.Partitions, o.Parallel, o.CommTimeout = 0, "samples=2", 7
	_, err = o.Resolve("comm-timeout")
	assert.NoError(t, err, "the workers of groups wait for each other")
	o.Parallel = "graph=64,samples=64"
	_, err = o.Resolve()
	assert.Refused(t, err, "at most 1024 workers, and this one 4096")
}

// read reads a setting's text.
func read(t *testing.T, value encoding.TextUnmarshaler, text string) {
	t.Helper()
	assert.NoError(t, value.UnmarshalText([]byte(text)))
}

// TestDevice: cards have their numbers, all have none, and others are no cards.
func TestDevice(t *testing.T) {
	for text, want := range map[string][]int{
		"cpu": nil, "auto": nil, "cuda": nil, "cuda:0": {0}, "Cuda:12": {12}, "cuda:3,0": {3, 0},
		"cuda:1,cuda:0,2": {1, 0, 2},
	} {
		var d Device
		read(t, &d, text)
		numbers, are := d.Cards()
		assert.Equal(t, strings.HasPrefix(strings.ToLower(text), "cuda"), are, text)
		assert.Equal(t, want, numbers, text)
	}
	for _, text := range []string{
		"", "gpu", "1", "cuda:", "cuda:-1", "cuda:1.5", "cuda:99999", "cuda1", "cuda:0,", "cuda,cuda:1",
	} {
		err := new(Device).UnmarshalText([]byte(text))
		assert.EqualError(t, err, "must be cpu, cuda, cuda:N for card N from 0, cuda:N,M for several, or auto")
	}
	err := new(Device).UnmarshalText([]byte("cuda:1,0,cuda:1"))
	assert.EqualError(t, err, "has card 1 twice; name each card once")
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"4GiB": 4 << 30, "512MB": 512e6, "1.5 gb": 1.5e9, "1000": 1000, "3b": 3, "64KiB": 64 << 10, "none": 0,
		"0": 0, "1TiB": 1 << 40,
	} {
		var got Bytes
		if err := got.UnmarshalText([]byte(text)); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".5", "GiB", "-1GB", "4 G i B", "1e30", "NaN", "inf", "4XB"} {
		var got Bytes
		assert.Error(t, got.UnmarshalText([]byte(text)), "%q was read as %d", text, got)
	}
	for b, want := range map[Bytes]string{
		0: "none", 1e6: "1MB", 4 << 30: "4GiB", 512e6: "512MB",
		1 << 10: "1KiB", 1001: "1001B",
	} {
		assert.Equal(t, want, b.String(), int64(b))
	}
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Int64Range(0, 1<<50).Draw(t, "bytes"))
		var got Bytes
		if err := got.UnmarshalText([]byte(b.String())); got != b || err != nil {
			t.Fatalf("%d is written %q and read %d, %v", b, b, got, err)
		}
	})
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "3h50m": 230 * time.Minute, "0": 0, "4:00:00": 4 * time.Hour,
		"100:05:07":  100*time.Hour + 5*time.Minute + 7*time.Second,
		"1-02:00:00": 26 * time.Hour, "2-1": 49 * time.Hour, "0-01:30": 90 * time.Minute,
		"-5s": -1, "30": -1, "30:00": -1, "tomorrow": -1, "": -1, "1-": -1, "1-2:3:4:5": -1,
		"99999:00:00": -1, "-1-02": -1,
	} {
		if got, err := ParseTime(text); got != max(0, want) || (err == nil) != (want >= 0) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}
