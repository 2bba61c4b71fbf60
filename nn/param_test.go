package nn_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/autograd"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// model makes parameters and buffers of every kind.
func model(team *kernel.Team, seed uint64) *nn.Params {
	ps := nn.NewParams(team, seed)
	ps.Weight("convs.0.lin.weight", 4, 3, nn.Glorot(4, 3))
	ps.Bias("convs.0.bias", 3, nn.FanIn(4))
	ps.Attention("convs.0.att_src", 3, 6)
	norm := nn.NewBatchNorm(ps, "norms.0", 3)
	ps.CancelledBias("convs.0.lin.bias", 3)
	ps.Shift(norm, nn.Shift{Bias: "convs.0.lin.bias", Share: .5})
	ps.BeginLayer(1)
	ps.Buffer("convs.1.eps", 1, 0)
	ps.Weight("convs.1.lin_l.weight", 3, 2, nn.FanIn(3))
	return ps
}

// TestMatrix: files hold a matrix as it is, and a weight transposed.
func TestMatrix(t *testing.T) {
	ps := nn.NewParams(newTeam(t), 1)
	m := ps.Matrix("conv.weight1", 2, 3, nn.Uniform(1))
	state := ps.State()
	if got := state["conv.weight1"]; !slices.Equal(got.Shape, []int{2, 3}) ||
		!slices.Equal(got.Float32, m.Value.Floats()) {
		t.Errorf("filed as %v: %v, want %v", got.Shape, got.Float32, m.Value.Floats())
	}
	want := slices.Clone(m.Value.Floats())
	clear(m.Value.Floats())
	if err := ps.Load(state); err != nil || !slices.Equal(m.Value.Floats(), want) {
		t.Errorf("loaded %v, want %v: %v", m.Value.Floats(), want, err)
	}
}

// TestInitialValues: initial values fill the interval of PyTorch's and PyG's initialisers around 0. They
// depend on seed and name.
func TestInitialValues(t *testing.T) {
	team := newTeam(t)
	ps := nn.NewParams(team, 3)
	for _, c := range []struct {
		p     *nn.Param
		bound float64
	}{
		{ps.Weight("narrow", 60, 20, nn.Glorot(60, 20)), math.Sqrt(6. / 80)},
		{ps.Weight("wide", 20, 60, nn.Glorot(20, 60)), math.Sqrt(6. / 80)},
		{ps.Weight("linear", 60, 20, nn.FanIn(60)), math.Sqrt(1. / 60)},
		{ps.Weight("uniform", 60, 20, nn.Uniform(.25)), .25},
		{ps.Attention("attention", 8, 400), math.Sqrt(6. / 58)}, // 8 heads of 50 columns, by PyG's glorot
	} {
		mean, largest, n := 0.0, 0.0, float64(c.p.Value.Len())
		for _, v := range c.p.Value.Floats() {
			mean += float64(v) / n
			largest = math.Max(largest, math.Abs(float64(v)))
		}
		if !(largest <= c.bound) || !(largest > .97*c.bound) || !(math.Abs(mean) < 4*c.bound/math.Sqrt(3*n)) {
			t.Errorf("%s: values up to %v with a mean of %v, want a bound of %v", c.p.Name,
				largest, mean, c.bound)
		}
	}
	if v := ps.Bias("b", 3, nn.Constant(2)).Value.Floats(); !slices.Equal(v, []float32{2, 2, 2}) {
		t.Errorf("constant 2: %v", v)
	}
	weights := func(seed uint64, name string) []float32 {
		return nn.NewParams(team, seed).Weight(name, 40, 50, nn.Uniform(1)).Value.Floats()
	}
	if !slices.Equal(weights(1, "w"), weights(1, "w")) {
		t.Error("one seed and name give different values")
	}
	if slices.Equal(weights(1, "w"), weights(2, "w")) || slices.Equal(weights(1, "w"), weights(1, "v")) {
		t.Error("different seeds or names give the same values")
	}
	nn.FanIn(0)([]float32{1}, rand.New(rand.NewPCG(1, 1))) // a layer without inputs still has a bias
}

func TestParams(t *testing.T) {
	team := newTeam(t)
	ps := model(team, 1)
	got := map[string][]int{}
	for _, p := range ps.List {
		got[p.Name] = ps.State()[p.Name].Shape
	}
	want := map[string][]int{
		"convs.0.lin.weight": {3, 4}, "convs.0.bias": {3}, "convs.0.att_src": {1, 3, 2},
		"norms.0.module.weight": {3}, "norms.0.module.bias": {3}, "convs.1.lin_l.weight": {2, 3},
	}
	assert.Equal(t, want, got)
	if n := ps.Count(); n != 12+3+6+3+3+6 {
		t.Errorf("%d trained values", n)
	}
	for i, p := range ps.List {
		decays := strings.Contains("convs.0.lin.weight convs.0.att_src convs.1.lin_l.weight", p.Name)
		if decays != (p.Decay == nn.WeightDecay) || p.Layer != i/5 {
			t.Errorf("%s: weight decay %v, layer %d", p.Name, p.Decay, p.Layer)
		}
		team.Fill(p.Grad, 3)
	}
	ps.ZeroGrad()
	for _, p := range ps.List {
		if slices.ContainsFunc(p.Grad.Floats(), func(v float32) bool { return v != 0 }) {
			t.Errorf("%s has a gradient after ZeroGrad", p.Name)
		}
	}
	if (*nn.Param)(nil).On(nil) != nil {
		t.Error("no parameter is a Var")
	}
	ps.Release()
	if live := team.Memory.LiveTensors(); live != 0 {
		t.Errorf("%d bytes are live after Release", live)
	}
}

func TestStateRoundTrip(t *testing.T) {
	team := newTeam(t)
	from, to := model(team, 1), model(team, 2)
	for _, b := range from.Buffers {
		for i := range b.Write() {
			b.Write()[i] += float32(i) + 1.5
		}
	}
	*from.Buffers[2].Count = 1 << 40
	state := from.State()
	w, stored := from.List[0].Value.Floats(), state["convs.0.lin.weight"]
	if !slices.Equal(stored.Shape, []int{3, 4}) || stored.Float32[1*4+2] != w[2*3+1] {
		t.Errorf("a weight is stored as %v %v, from %v", stored.Shape, stored.Float32, w)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(state)), []string{
		"convs.0.att_src", "convs.0.bias", "convs.0.lin.bias", "convs.0.lin.weight", "convs.1.eps",
		"convs.1.lin_l.weight", "norms.0.module.bias", "norms.0.module.num_batches_tracked",
		"norms.0.module.running_mean", "norms.0.module.running_var",
		"norms.0.module.weight",
	}); diff != "" {
		t.Error(diff)
	}
	require.NoError(t, to.Load(state))
	assert.Equal(t, state, to.State())
	stored.Float32[0] = 99
	if w[0] == 99 || to.List[0].Value.Floats()[0] == 99 {
		t.Error("the state shares the parameters' memory")
	}
}

// TestCancelledBias: a bias before batch norm moves the running mean by its share, so that the function stays
// the same. A file need not have the bias.
func TestCancelledBias(t *testing.T) {
	team := newTeam(t)
	ps := model(team, 1)
	state := ps.State()
	state["convs.0.lin.bias"] = safetensors.Tensor{Shape: []int{3}, Float32: []float32{1, -2, 4}}
	state["norms.0.module.running_mean"] = safetensors.Tensor{Shape: []int{3}, Float32: []float32{10, 20, 30}}
	require.NoError(t, ps.Load(state))
	if got := ps.Buffers[0].Read(); !slices.Equal(got, []float32{9.5, 21, 28}) {
		t.Errorf("the running mean is %v", got)
	}
	delete(state, "convs.0.lin.bias")
	require.NoError(t, ps.Load(state))
	if got := ps.Buffers[0].Read(); !slices.Equal(got, []float32{10, 20, 30}) {
		t.Errorf("the running mean is %v", got)
	}
}

// TestOlderName: PyTorch Geometric once wrote lin_src.weight for lin.weight.
func TestOlderName(t *testing.T) {
	team := newTeam(t)
	ps := model(team, 1)
	state := ps.State()
	state["convs.0.lin_src.weight"] = state["convs.0.lin.weight"]
	if err := ps.Load(state); err == nil || !strings.Contains(err.Error(), "convs.0.lin_src.weight") {
		t.Errorf("both names: %v", err)
	}
	delete(state, "convs.0.lin.weight")
	other := model(team, 2)
	require.NoError(t, other.Load(state))
	if !slices.Equal(other.List[0].Value.Floats(), ps.List[0].Value.Floats()) {
		t.Error("the weight was not loaded")
	}
	part := nn.NewParams(team, 1) // a part of a model, whose weight another worker has
	part.Allow("convs.0.lin.weight")
	alone := nn.State{"convs.0.lin_src.weight": state["convs.0.lin_src.weight"]}
	if err := part.Load(alone); err != nil {
		t.Errorf("an older name of what another worker has: %v", err)
	}
	alone["convs.0.lin.weight"] = alone["convs.0.lin_src.weight"]
	if err := part.Load(alone); err == nil ||
		!strings.Contains(err.Error(), "hold convs.0.lin_src.weight, which") {
		t.Errorf("both names of what another worker has: %v", err)
	}
	own := nn.NewParams(team, 1) // a caller's own model, whose weight has this name
	own.Weight("lin_src.weight", 4, 3, nn.Glorot(4, 3))
	if err := own.Load(own.State()); err != nil {
		t.Errorf("a name that is no older one: %v", err)
	}
}

// TestLoadWithoutCount: nothing depends on batch norm's count, so weights may lack it.
func TestLoadWithoutCount(t *testing.T) {
	team := newTeam(t)
	from, to := model(team, 1), model(team, 2)
	*from.Buffers[2].Count, *to.Buffers[2].Count = 5, 7
	state := from.State()
	delete(state, "norms.0.module.num_batches_tracked")
	require.NoError(t, to.Load(state))
	state["norms.0.module.num_batches_tracked"] = safetensors.Tensor{Shape: []int{}, Int64: []int64{0}}
	assert.Equal(t, state, to.State())
}

func TestLoadRefuses(t *testing.T) {
	floats := func(shape []int, values ...float32) safetensors.Tensor {
		return safetensors.Tensor{Shape: shape, Float32: values}
	}
	for name, c := range map[string]struct {
		change func(state map[string]safetensors.Tensor)
		want   string
	}{
		"a missing weight": {func(s map[string]safetensors.Tensor) {
			delete(s, "convs.0.att_src")
		}, "lack convs.0.att_src [1 3 2]"},
		"a missing buffer": {func(s map[string]safetensors.Tensor) {
			delete(s, "norms.0.module.running_var")
		}, "lack norms.0.module.running_var [3]"},
		"an unknown tensor": {func(s map[string]safetensors.Tensor) {
			s["convs.2.bias"] = floats([]int{1}, 1)
		}, "convs.2.bias, which this model does not have"},
		"another shape": {func(s map[string]safetensors.Tensor) {
			s["convs.0.bias"] = floats([]int{2}, 1, 2)
		}, "convs.0.bias as [2], this model needs [3]"},
		"a transposed shape": {func(s map[string]safetensors.Tensor) {
			s["convs.1.lin_l.weight"] = floats([]int{3, 2}, 1, 2, 3, 4, 5, 6)
		}, "convs.1.lin_l.weight as [3 2], this model needs [2 3]"},
		"one axis less": {func(s map[string]safetensors.Tensor) {
			s["convs.0.att_src"] = floats([]int{3, 2}, 1, 2, 3, 4, 5, 6)
		}, "convs.0.att_src as [3 2]"},
		"a buffer's shape": {func(s map[string]safetensors.Tensor) {
			s["convs.1.eps"] = floats([]int{}, 1)
		}, "convs.1.eps as [], this model needs [1]"},
		"NaN": {func(s map[string]safetensors.Tensor) {
			s["convs.0.bias"].Float32[1] = float32(math.NaN())
		}, "convs.0.bias that is not finite"},
		"infinity": {func(s map[string]safetensors.Tensor) {
			s["norms.0.module.running_var"].Float32[0] = float32(math.Inf(1))
		}, "norms.0.module.running_var that is not finite"},
		"integers": {func(s map[string]safetensors.Tensor) {
			s["convs.0.bias"] = safetensors.Tensor{Shape: []int{3}, Int64: []int64{1, 2, 3}}
		}, "convs.0.bias as integers"},
		"integers of another shape": {func(s map[string]safetensors.Tensor) {
			s["convs.0.bias"] = safetensors.Tensor{Shape: []int{2}, Int64: []int64{1, 2}}
		}, "convs.0.bias as [2], this model needs [3]"},
		"a count of floats": {func(s map[string]safetensors.Tensor) {
			s["norms.0.module.num_batches_tracked"] = floats([]int{}, 1)
		}, "other than one integer"},
		"a cancelled bias": {func(s map[string]safetensors.Tensor) {
			s["convs.0.lin.bias"] = floats([]int{2}, 1, 2)
		}, "convs.0.lin.bias as [2], this model needs [3]"},
		"nothing": {func(s map[string]safetensors.Tensor) { clear(s) }, "lack convs.0.lin.weight"},
	} {
		t.Run(name, func(t *testing.T) {
			team := newTeam(t)
			state := model(team, 1).State()
			c.change(state)
			err := model(team, 2).Load(state)
			if err == nil || !refusal.Is(err) || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want a refusal in one line that says %q", err, c.want)
			}
		})
	}
}

// TestLoadOfOtherRelations: weights of other relations than the model's are refused, and the refusal names
// both.
func TestLoadOfOtherRelations(t *testing.T) {
	paramsOf := func(relations ...string) *nn.Params {
		ps := nn.NewParams(newTeam(t), 1)
		for _, relation := range relations {
			ps.Weight("convs.0."+relation+".lin.weight", 2, 2, nn.Glorot(2, 2))
			ps.Bias("convs.0."+relation+".bias", 2, nn.FanIn(2))
		}
		return ps
	}
	const rest = ": give its relations the names of then, and leave others out"
	for _, c := range []struct {
		was, is []string
		want    string
	}{
		{
			[]string{"user__buys__shop", "shop__rev_buys__user"},
			[]string{"user__sees__shop", "shop__rev_buys__user"},
			"the weights lack convs.0.user__sees__shop.lin.weight [2 2]: they are of the relations " +
				"shop__rev_buys__user, user__buys__shop, and this graph has the relations shop__rev_buys__user, user__sees__shop" + rest,
		},
		{
			[]string{"a__x__b", "a__y__b"}, []string{"a__x__b"}, "the weights hold convs.0.a__y__b.bias, which this " +
				"model does not have: they are of the relations a__x__b, a__y__b, and this graph has the " +
				"relations a__x__b" + rest,
		},
		{
			[]string{"edge"}, []string{"a__x__b"}, "the weights lack convs.0.a__x__b.lin.weight [2 2]; was the model " +
				"built with the same settings, for the same relations? This model alone names some: a__x__b",
		},
		{ // the names of R-GCN's layers
			[]string{"a__x__b"}, []string{"edge"}, "the weights lack convs.0.edge.lin.weight [2 2]; was the model " +
				"built with the same settings, for the same relations? The weights alone name some: a__x__b",
		},
		{
			[]string{"a__x__b"},
			[]string{"a__x__b", "lin"},
			"the weights lack convs.0.lin.lin.weight [2 2]; was the model built with the same settings?",
		},
	} {
		assert.Refused(t, paramsOf(c.is...).Load(paramsOf(c.was...).State()), c.want)
	}
	// With fewer layers, the only one reads fewer relations of the same graph.
	two := paramsOf("a__x__a", "b__y__a", "a__z__b")
	two.Weight("convs.1.a__x__a.lin.weight", 2, 2, nn.Glorot(2, 2))
	two.Weight("convs.1.b__y__a.lin.weight", 2, 2, nn.Glorot(2, 2))
	one := paramsOf("a__x__a", "b__y__a")
	assert.EqualRefusal(t, one.Load(two.State()), "the weights hold convs.0.a__z__b.bias, which this model does not "+
		"have; was the model built with the same settings?")
	assert.EqualRefusal(t, two.Load(one.State()), "the weights lack convs.0.a__z__b.lin.weight [2 2]; was the model "+
		"built with the same settings?")
}

func TestSnapshot(t *testing.T) {
	team := newTeam(t)
	ps := model(team, 1)
	*ps.Buffers[2].Count = 5
	ps.Buffers[0].Write()[1] = 3
	want := ps.State()
	var s nn.Snapshot
	change := func(by float32) {
		for _, p := range ps.List {
			team.Fill(p.Value, by)
		}
		ps.Buffers[0].Write()[1] = by
		*ps.Buffers[2].Count = int64(by)
	}
	change(7)
	ps.Save(&s) // an earlier state, whose memory the next one uses
	ps.Keep()
	require.NoError(t, ps.Load(want))
	ps.Save(&s)
	ps.Keep()
	change(8)
	ps.Keep() // there is nothing to keep
	ps.Restore(&s)
	assert.Equal(t, want, ps.State())
	ps.Save(&s)
	ps.Restore(&s) // nothing has changed since Save
	assert.Equal(t, want, ps.State())
}

// TestPlannedParams: a plan makes parameters and tables without touching their memory.
func TestPlannedParams(t *testing.T) {
	meter := tensor.NewMeter()
	defer meter.Close()
	ps := nn.NewParams(kernel.NewPlan(1, meter), 1)
	ps.Weight("w", 1<<17, 1<<17, nn.Constant(1)) // 64 GiB, and as much for the gradient
	ps.Table("t", autograd.AllHere(1<<20), 1<<7, 1<<7, nn.Constant(1))
	if live := meter.LiveTensors(); live != 4<<36 {
		t.Errorf("%d bytes are planned", live)
	}
}

// TestSnapshotOfCounters: each counter has its own number again.
func TestSnapshotOfCounters(t *testing.T) {
	ps := nn.NewParams(newTeam(t), 1)
	a, b, c := ps.Counter("a"), ps.Counter("b"), ps.Counter("c")
	*a.Count, *b.Count, *c.Count = 1, 2, 3
	var s nn.Snapshot
	ps.Save(&s)
	ps.Keep()
	*a.Count, *b.Count, *c.Count = 7, 8, 9
	ps.Restore(&s)
	if *a.Count != 1 || *b.Count != 2 || *c.Count != 3 {
		t.Errorf("%d, %d and %d, want 1, 2 and 3", *a.Count, *b.Count, *c.Count)
	}
}
