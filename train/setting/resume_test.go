package setting

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/parallel/mesh"
)

// another is a text of another value of a setting, "" where this test knows none.
func another(s Setting, o *Options) string {
	texts := append(slices.Clone(s.Choices), "2", "3", "0.5", "0.25", "true", "false", "none", "2h",
		"graph=3", "1GB", "file", "v,e,v", "1,0.5", "70/10/20", "varco")
	for _, text := range texts {
		changed := *o
		if err := s.Set(&changed, text); err == nil && s.Text(&changed) != s.Text(o) {
			return text
		}
	}
	return ""
}

// TestWhatMayChange: a run continues with other values of the settings that leave results as they are, and
// is refused with another value of any other setting that means something to it.
func TestWhatMayChange(t *testing.T) {
	may := strings.Fields(
		`aggregation-chunks balance checkpoint-every comm-timeout device device-messages epochs halo host-memory-limit keep-edge-states keep-halo max-time memory-limit
		offload parallel partition partitions patience prefetch recompute threads validate`)
	var bases []Options
	for _, change := range []func(o *Options){
		func(o *Options) { o.Model, o.Norm = "gcn", "batch" },
		func(o *Options) { o.Model = "sage" },
		func(o *Options) { o.Model, o.Norm = "gat", "layer" },
		func(o *Options) { o.Model = "gcnii" },
		func(o *Options) { o.Model = "gin" },
		func(o *Options) { o.Model = "rgcn" },
		func(o *Options) { o.Model = "pna" },
		func(o *Options) { o.Model = "transformer" },
		func(o *Options) { o.Model, o.Decoupled = "gat", true },
		func(o *Options) { o.Task, o.Decoder = "link", "distmult" },
		func(o *Options) { o.Task, o.EdgeLabel = "edge", "fraud" },
	} {
		o := Defaults()
		change(&o)
		bases = append(bases, o)
	}
	meshes := []mesh.Mesh{
		{Stages: 1, Partitions: 2, Slices: 2},
		{Stages: 2, Partitions: 2, Slices: 1},
		{Stages: 1, Partitions: 2, Slices: 1},
	}
	for _, s := range settings {
		o := slices.IndexFunc(bases, func(o Options) bool { return s.Applies(&o) })
		m := slices.IndexFunc(meshes, s.appliesTo)
		if o < 0 || m < 0 {
			t.Errorf("%s means nothing to any settings here", s.Name)
			continue
		}
		now := &Resolved{Options: bases[o], Meshes: Meshes{Mesh: meshes[m]}}
		before, text := now.Options, another(s, &now.Options)
		if text == "" {
			t.Errorf("%s: no other value than %q is known here", s.Name, s.Text(&now.Options))
			continue
		}
		require.NoError(t, s.Set(&before, text))
		assert.NoError(t, now.CheckContinues(&now.Options, now.Mesh), "the same settings")
		err := now.CheckContinues(&before, now.Mesh)
		if changes := slices.Contains(may, s.Name); changes && err != nil ||
			!changes && (!refusal.Is(err) || !strings.Contains(err.Error(), s.Name+" ")) {
			t.Errorf("%s %q, and the run has %q: %v, and it may change: %v", s.Name, s.Text(&now.Options),
				text, err, changes)
		}
	}
}

// TestContinuesWithMovedWeights: the file of class weights may be elsewhere, and no word take its place. So
// may the initial weights. What has not moved is no other file.
func TestContinuesWithMovedWeights(t *testing.T) {
	there := filepath.Join(t.TempDir(), "w.txt")
	require.NoError(t, os.WriteFile(there, nil, 0o666))
	weights := func(o *Options) *string { return &o.ClassWeights }
	initial := func(o *Options) *string { return &o.Init }
	for _, test := range []struct {
		field   func(*Options) *string
		was, is string
		refused bool
	}{
		{weights, "old/w.txt", "new/w.txt", false},
		{weights, there, "new/w.txt", true},
		{weights, "w.txt", "balanced", true},
		{weights, "none", "w.txt", true},
		{weights, "balanced", "none", true},
		{initial, "old/w.safetensors", "new/w.safetensors", false},
		{initial, there, "new/w.safetensors", true},
		{initial, "", there, true},
		{initial, "old/w.safetensors", "", true},
	} {
		before, now := Defaults(), &Resolved{Options: Defaults(), Meshes: Meshes{Mesh: mesh.One}}
		*test.field(&before), *test.field(&now.Options) = test.was, test.is
		if err := now.CheckContinues(&before, now.Mesh); (err != nil) != test.refused {
			t.Errorf("%s for %s: %v", test.is, test.was, err)
		}
	}
}

// TestFormer: a setting that earlier versions had is passed over where it has the value that is left, and is
// refused with the way on where it has another.
func TestFormer(t *testing.T) {
	for name, same := range former {
		if _, known := settingNamed(name); known {
			t.Errorf("%s is a setting", name)
		}
		explanation, _ := Elsewhere(name)
		if !strings.Contains(explanation, "was removed") {
			t.Errorf("%s: %q", name, explanation)
		}
		o, err := FromTexts(map[string]string{name: same, "hidden": "3"})
		require.NoError(t, err)
		assert.Equal(t, 3, o.Hidden)
		_, err = FromTexts(map[string]string{name: "other"})
		assert.EqualRefusal(t, err, "the run has the setting "+name+" other, which this version does not "+
			"have; "+explanation)

		read := Defaults()
		require.NoError(t, parseConfig([]byte(name+": "+same+"\nhidden: 3\n"), "", &read))
		assert.Equal(t, 3, read.Hidden)
		assert.EqualError(t, parseConfig([]byte(name+": other\n"), "", &read),
			`line 1: unknown key "`+name+`"; `+explanation)
		assert.Error(t, parseConfig([]byte(name+": ["+same+"]\n"), "", &read))
	}
}
