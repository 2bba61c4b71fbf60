package setting

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// Files of settings: those that are written, given, and shipped.

// writtenYAML is what a run writes of its options.
func writtenYAML(t rapid.TB, o *Options) []byte {
	r, err := o.Resolve()
	require.NoError(t, err)
	written, err := r.YAML()
	require.NoError(t, err)
	return written
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
