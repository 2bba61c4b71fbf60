package setting

import (
	"cmp"
	"encoding"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
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

// writtenYAML is what a run writes of its options.
func writtenYAML(t rapid.TB, o *Options) []byte {
	r, err := o.Resolve()
	require.NoError(t, err)
	written, err := r.YAML()
	require.NoError(t, err)
	return written
}

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
		assert.Equal(t, c.want, r.OwnPass())
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
		{"model gat, attention-gradient stop", "--attention-gradient stop: belongs to a decoupled model"},
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
		{"model gat, decoupled, attention-gradient stop, attention-dropout .5", ""},
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

// The configurations that weft ships have names, unless a file of that name is there.
func TestReadNamedConfig(t *testing.T) {
	t.Chdir(t.TempDir())
	o := Defaults()
	if err := ReadConfig("cora-gcn", &o); err != nil || o.Hidden != 16 || o.Model != "gcn" ||
		o.InputDropout != .5 {
		t.Errorf("%v, %+v", err, o)
	}
	for name, want := range map[string]string{
		"cora-gnc": "config cora-gnc: neither a file nor a configuration of that name; did you " +
			"mean cora-gcn?",
		"my-cora": "config my-cora: neither a file nor a configuration of that name; there are " +
			"cora-appnp, cora-gat, cora-gcn",
		"nosuch": "config nosuch: neither a file nor a configuration of that name; it is one of " +
			"aifb-rgcn, citeseer-gat",
		"./cora-gcn": "no such file", "cora-gcn.yaml": "no such file", "..": "..",
	} {
		assert.Refused(t, ReadConfig(name, &o), want, name)
	}
	require.NoError(t, os.WriteFile("cora-gcn", []byte("hidden: 7\n"), 0o600))
	if err := ReadConfig("cora-gcn", &o); err != nil || o.Hidden != 7 {
		t.Errorf("%v, hidden %d", err, o.Hidden)
	}
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

func TestReadConfig(t *testing.T) {
	for _, c := range []struct{ text, want string }{ // want: the refusal, empty when it is read
		{"", ""},
		{"# nothing\n", ""},
		{"hidden: 32\n", ""},
		{"hidden: 32\ndropout: .25\nresidual: on\nmemory-limit: 4GiB\nmodel: gat\nlr: 5e-3\nseed: " +
			"18446744073709551615\n", ""},
		{"model: gcn\nhiden: 16\n", `line 2: unknown key "hiden"; did you mean hidden?`},
		{"quality: 1\n", `line 1: unknown key "quality"; weft train --help-all lists all settings`},
		{"learning_rate: 1\n", `line 1: unknown key "learning_rate"; --lr is the learning rate`},
		{"edge-batch: 1\n", `line 1: unknown key "edge-batch"; it may be edge-label, use-edge-`},
		{"max-time: 3:50:00\n", ""},
		{"max-time: 1-02:00:00\n", ""},
		{"max-time: 2562047h\n", ""},
		{"max-time: 99999999h\n", "must be at most 2562047h0m0s"},
		{"max-time: 99999999\n", "must be a time above 0 with its units"},
		{"max-time: 30:00\n", "must be hours:minutes:seconds as in 3:50:00"},
		{"comm-timeout: 0:00:00\n", "must be a time above 0"},
		{"hidden: 1\nlayers: 2\nhidden: 3\n", "hidden"},
		{"hidden: many\n", `line 1: hidden "many": must be a whole number`},
		{"hidden: 1.5\n", "must be a whole number"},
		{"residual: 7\n", "must be true or false"},
		{"hidden: [1, 2]\n", "line 1: hidden: a single value was expected"},
		{"hidden:\n", "a single value was expected"},
		{"hidden: *x\n", "line 1"},
		{"hidden: &a 3\nlayers: *a\n", "line 1: hidden: YAML's anchors and aliases"},
		{"\ufeffhidden: 32\n", ""},
		{"model: gcn\nlr: -1\n", "line 2: lr -1: must be above 0"},
		{"dropout: .inf\n", "line 1: dropout +Inf: must be a finite number at least 0 and below 1"},
		{"model: gnc\n", "line 1: model \"gnc\": unknown model; did you mean gcn?"},
		{"model: |\n  gcn\n", "line 1: model \"|\\n  gcn\": unknown model"},
		{"- hidden\n", "a mapping was expected"},
		{"hidden: 1\n---\nhidden: 2\n", "several YAML documents"},
		{"hidden: {", "line 1"},
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o666))
		o := Defaults()
		err := ReadConfig(path, &o)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case c.want == "":
		case err == nil || !refusal.Is(err) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: %v, want %q in one line", c.text, err, c.want)
		}
	}
	o := Defaults()
	assert.EqualError(t, ReadConfig("nosuch.yaml", &o), "--config nosuch.yaml: no such file or directory")
}

// A configuration written by a run means the same options again.
func TestYAMLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Defaults()
		o.Model = rapid.SampledFrom(gnn.Names()).Draw(t, "model")
		o.LR = rapid.Float64Range(1e-12, 10).Draw(t, "lr")
		o.Seed = rapid.Uint64().Draw(t, "seed")
		kind, _ := gnn.KindOf(o.Model)
		if kind.Uses("dropout") {
			o.Dropout = rapid.Float64Range(0, 0.99).Draw(t, "dropout")
		}
		if kind.Uses("residual") {
			o.Residual = rapid.Bool().Draw(t, "residual")
		}
		o.MemoryLimit = Bytes(rapid.Int64Range(0, 1<<50).Draw(t, "limit"))
		if o.Model == "gat" {
			o.Heads = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "heads")
		}
		written := writtenYAML(t, &o)
		again := Defaults()
		require.NoError(t, parseConfig(written, "", &again), "in\n%s", written)
		require.Equal(t, o, again, written)
	})
}

func TestYAMLLeavesOutWhatDidNotApply(t *testing.T) {
	o := Defaults()
	o.Model, o.Init = "gcn", "w.safetensors"
	written := writtenYAML(t, &o)
	for _, name := range []string{"heads:", "attention-dropout:", "init:", "parallel:"} {
		if strings.Contains(string(written), name) {
			t.Errorf("%s stands in\n%s", name, written)
		}
	}
}

// Every configuration that is shipped is read, makes sense and sets nothing in vain.
func TestShippedConfigurations(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no configuration was found: %v", err)
	}
	for _, file := range files {
		o := Defaults()
		require.NoError(t, ReadConfig(file, &o))
		_, err := o.Resolve()
		assert.NoError(t, err, file)
		if u := o.Unused(); u != nil {
			t.Errorf("%s: %s does not use %v", file, o.Model, u)
		}
	}
}

// hostile are texts for which YAML's parser, left alone, may need memory that grows with the square of their
// length.
var hostile = []string{
	"[", "a: [", "- ", "- - ", "? ", "? - ", "{a: [", "{a: ", "[a,", "[\n", "[#\n", "a: {b: c}\n", "!!a ",
	"&a ", "*a ", "---\n", "--- a\n", "\n", "\r\n", "<<: ", "a: b: ",
}

// TestConfigInLittleMemory: no configuration takes much more memory than a long one that is accepted.
func TestConfigInLittleMemory(t *testing.T) {
	for _, unit := range hostile {
		for _, text := range []string{unit, "a: |\n " + unit} {
			text += strings.Repeat(unit, (maxConfig-len(text))/len(unit))
			o := Defaults()
			if err := parsedInLittleMemory(t, text, &o); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q and so on: %q", text[:10], err)
			}
		}
	}
	// The text itself is bounded too.
	for _, size := range []int{maxConfig, maxConfig + 1} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte("hidden: 32 #"+strings.Repeat("x", size-12)), 0o666))
		o := Defaults()
		if err := ReadConfig(path, &o); (err == nil) != (size == maxConfig) || o.Hidden != 32 && err == nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// parsedInLittleMemory parses a configuration and fails where more went through the heap than so much for
// each byte.
func parsedInLittleMemory(t *testing.T, text string, o *Options) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := parseConfig([]byte(text), "", o)
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	if most := uint64(1<<20 + len(text)*8<<10); took > most {
		t.Errorf("%d bytes of YAML took %d bytes of memory, more than %d: %.20q…",
			len(text), took, most, text)
	}
	return err
}

func TestYAMLNestsLittle(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\n" + strings.Repeat("\n", 150) + "c: [d]\n": "",
		"a: |\n" + strings.Repeat("\n \r\n", 80):          "more than 200 line breaks in a row",
		"a:\n  b: " + strings.Repeat("[", 101):            "line 2: more than 100 lists and mappings",
		"a:\n  b: " + strings.Repeat("{c: ", 101):         "line 2: more than 100 lists and mappings",
		strings.Repeat("- ", 101):                         "line 1: more than 100 lists and mappings",
		strings.Repeat("? ", 101):                         "line 1: more than 100 lists and mappings",
	} {
		_, err := ParseYAML([]byte(text))
		if want == "" && err != nil ||
			want != "" && (err == nil || !strings.HasPrefix(err.Error(), want+"; write a line")) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

// FuzzConfig: any text is read or refused in one line, in little memory. Options that make sense are written
// and read back the same.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("model: gcn\nhidden: 16\n"))
	f.Add([]byte("hidden: &a 3\nlayers: *a\n"))
	f.Add([]byte("? [a]\n: {b: c}\n"))
	for _, unit := range hostile {
		f.Add([]byte("a: >\n " + strings.Repeat(unit, 1000)))
		f.Add([]byte(strings.Repeat(unit, 1000)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxConfig {
			return
		}
		o := Defaults()
		err := parsedInLittleMemory(t, string(data), &o)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("a message of several lines: %q", err)
			}
			return
		}
		r, err := o.Resolve()
		if err != nil {
			return
		}
		written, err := r.YAML()
		require.NoError(t, err)
		again := Defaults()
		require.NoError(t, parseConfig(written, "", &again), "in\n%s", written)
		r, err = again.Resolve()
		require.NoError(t, err)
		if twice, err := r.YAML(); err != nil || string(twice) != string(written) {
			t.Errorf("%v; read back as\n%s where\n%s was written", err, twice, written)
		}
	})
}
