package worker

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/assert"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/setting"
)

// each is a Communication whose k-th kind has traffic(k), k = 0, 1, ….
func each(traffic func(k int64) Traffic) (c Communication) {
	kinds := reflect.ValueOf(&c).Elem()
	for k := range kinds.NumField() {
		kinds.Field(k).Set(reflect.ValueOf(traffic(int64(k))))
	}
	return c
}

// TestTallySince: what a worker did in a pass is what it had done after it less what it had before, of each
// kind of traffic and each layer, bytes and messages.
func TestTallySince(t *testing.T) {
	before := Tally{Waited: time.Second, Sent: each(func(k int64) Traffic {
		return Traffic{Bytes: 10 + k, Messages: 1 + k}
	})}
	after := Tally{Waited: 4 * time.Second, Sent: each(func(k int64) Traffic {
		return Traffic{Bytes: 110 + 3*k, Messages: 21 + 4*k}
	})}
	want := each(func(k int64) Traffic { return Traffic{Bytes: 100 + 2*k, Messages: 20 + 3*k} })
	if got := after.since(before); got.Sent != want || got.Waited != 3*time.Second {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSumOf: the sum over workers, and that of bytes, have all kinds.
func TestSumOf(t *testing.T) {
	a := each(func(k int64) Traffic { return Traffic{Bytes: 1 << k, Messages: 3 * k} })
	b := each(func(k int64) Traffic { return Traffic{Bytes: 100 << k, Messages: 1} })
	want := each(func(k int64) Traffic { return Traffic{Bytes: 101 << k, Messages: 3*k + 1} })
	assert.Equal(t, want, SumOf([]Communication{a, {}, b}), "the sum")
	assert.Equal(t, 1+2+4+8+16+32, a.Bytes(), "bytes")
}

// TestSwitches: each all-to-all counts once, and its bytes for its layer.
func TestSwitches(t *testing.T) {
	a := newAccount()
	a.redistributed("layers.0", 100)
	a.redistributed("layers.1", 30)
	a.redistributed("layers.0", 7)
	if a.redistributions != 3 || a.layoutBytes["layers.0"] != 107 || a.layoutBytes["layers.1"] != 30 {
		t.Errorf("%d switches, %v", a.redistributions, a.layoutBytes)
	}
}

// TestParametersThatDrift: if a worker's parameters differ from the others', the epoch ends with an error
// that names the worker.
func TestParametersThatDrift(t *testing.T) {
	for cause, processes := range map[string]bool{
		"a fault of the program, or of this machine":                                   false,
		"the machines do not compute alike: set WEFT_SIMD to one level on all of them": true,
	} {
		drift(t, processes, "after epoch 4 the parameters of worker 1 differ from those of worker 0: "+cause)
	}
}

func drift(t *testing.T, processes bool, want string) {
	ends := comm.InProcess(2)
	var all sync.WaitGroup
	for rank := range 2 {
		all.Go(func() {
			mem := tensor.NewMeter()
			defer mem.Close()
			value := mem.New(tensor.Parameters, 1, 3)
			copy(value.Floats(), []float32{1, 2, 3 + float32(rank)})
			w := &model{Params: &nn.Params{List: []*nn.Param{{Value: value}}}}
			w.Team, w.Processes = kernel.NewTeam(1, mem), processes
			w.Groups = mesh.Groups{
				Mesh: mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}, World: comm.New(ends[rank], 0),
			}
			_, _, err := w.agree(4, 1, 0)
			assert.EqualError(t, err, want)
		})
	}
	all.Wait()
}

// TestWeightsOfStages: worker 0, and no other, gets the weights of all stages.
func TestWeightsOfStages(t *testing.T) {
	grid := mesh.Mesh{Stages: 3, Partitions: 1, Slices: 2}
	err := launch.Workers(grid.Workers(), 0, func(c *comm.Comm) error {
		mem := tensor.NewMeter()
		defer mem.Close()
		w := &model{member: member{Groups: grid.Join(c)}}
		w.Params = nn.NewParams(kernel.NewTeam(1, mem), 1)
		w.Params.Weight(fmt.Sprintf("convs.%d.lin.weight", w.Groups.Stage), 4, 3, nn.Glorot(4, 3))
		all, err := w.Weights()
		if err != nil {
			return err
		}
		var want []string
		sent := int64(0) // messages to the first stage: the length of a file, and the file
		switch {
		case w.Ranks().First():
			want = []string{"convs.0.lin.weight", "convs.1.lin.weight", "convs.2.lin.weight"}
		case w.Groups.Slice == 0:
			sent = 2
		}
		assert.Equal(t, want, slices.Sorted(maps.Keys(all)), "rank %d", c.Rank())
		assert.Equal(t, sent, c.Sent(comm.Setup).Messages, "rank %d sends", c.Rank())
		return c.Barrier(comm.Setup)
	})
	assert.NoError(t, err)
}

// TestMain fails where a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// TestShadowedSettings: where structs of settings embed each other, one name is one field, so that a setting
// is the same from the command line to where it acts. The exceptions are listed, with the structs that have
// a field of the name: the first one's is meant where no other is said.
func TestShadowedSettings(t *testing.T) {
	const ofAxes = "Options: Resolved, Resolved.Options" // setting.Options and axis.Options within it
	const resolved = "model.member.Config.Resolved"
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[axis.Options]():     "",
		reflect.TypeFor[setting.Options]():  "",
		reflect.TypeFor[setting.Resolved](): "Options: itself, Options",
		reflect.TypeFor[engine.Config](): "Epochs: Env, Resolved.Options; " + // equal
			ofAxes + "; Recompute: itself, Resolved.Options", // whether, as the word and the memory limit say
		reflect.TypeFor[Config](): ofAxes,
		reflect.TypeFor[Worker](): "Optimizer: itself, " + resolved + ".Options.Settings; " +
			"Options: " + resolved + ", " + resolved + ".Options; " +
			"Task: itself, " + resolved + ".Options.Goal",
	} {
		assert.Equal(t, want, strings.Join(shadows(typ), "; "), typ)
	}
}

// shadows lists the names that several fields of a struct, and of those that it embeds, have.
func shadows(typ reflect.Type) (names []string) {
	in := map[string][]string{} // by name: structs
	type level struct {
		typ  reflect.Type
		path string
	}
	for levels := []level{{typ, ""}}; len(levels) > 0; levels = levels[1:] { // the least deep first
		l := levels[0]
		if l.typ.Kind() == reflect.Pointer {
			l.typ = l.typ.Elem()
		}
		for k := range l.typ.NumField() {
			f := l.typ.Field(k)
			in[f.Name] = append(in[f.Name], cmp.Or(strings.TrimPrefix(l.path, "."), "itself"))
			if f.Anonymous && f.Type.Kind() != reflect.Interface {
				levels = append(levels, level{f.Type, l.path + "." + f.Name})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if len(in[name]) > 1 {
			names = append(names, name+": "+strings.Join(in[name], ", "))
		}
	}
	return names
}
